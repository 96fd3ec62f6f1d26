//! Webhooks that the real kube-apiserver calls. Without its binaries each test is skipped and says so.

mod absence;
mod arguments;
mod bad_input;
mod certificates;
mod fixture;
mod replicas;
mod requests;
mod roll_out;
