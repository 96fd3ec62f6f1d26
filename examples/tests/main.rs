//! The examples as programs, on a real API server: what they do, and what they log about problems.

mod bad_input;
mod dev;
mod dev_files;
mod election;
mod icecream;
mod icecream_faults;
mod monitoring;
mod pod_terminator;
mod programs;
mod settings;
mod stops;
mod support;
mod traces;
mod trouble;
