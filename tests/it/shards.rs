//! Shards: several replicas in one process share the objects of a cluster.

mod commands;
mod handing_over;
mod processes;
mod replicas;
mod trouble;
