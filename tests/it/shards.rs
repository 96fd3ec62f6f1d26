//! Shards: several replicas in one process share the objects of a cluster.

mod blocked;
mod children;
mod commands;
mod functions;
mod gained;
mod handing_over;
mod moving;
mod processes;
mod replicas;
mod rules;
mod selector;
mod tasks;
mod trouble;
mod work;
