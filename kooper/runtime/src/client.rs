//! A Kubernetes client for operators: kube's layers over a connector that detects a
//! connection whose peer is gone, with a connection of its own for each watch.

pub(crate) mod abort;
mod connect;
mod runtime;
pub(crate) mod stack;
mod watches;

pub(crate) use abort::abort;
pub use connect::connect;
pub(crate) use runtime::on_current_runtime;
pub(crate) use stack::{ClientStack, RequestLayer, ResponseBody, from_fn};
