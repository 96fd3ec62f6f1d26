//! Webhooks that the real kube-apiserver calls. Without its binaries each test is skipped and says so.

mod arguments;
mod certificates;
mod fixture;
mod requests;
