//! A Kubernetes client for operators: kube's layers over a connector that detects a
//! connection whose peer is gone, with a connection of its own for each watch.

mod abort;
#[cfg(feature = "cli")]
mod connect;
mod runtime;
mod stack;
#[cfg(feature = "cli")]
mod watches;

pub(crate) use abort::abort;
#[cfg(feature = "cli")]
pub use connect::connect;
pub(crate) use runtime::on_current_runtime;
pub(crate) use stack::{ClientStack, Next, RequestLayer, ResponseBody, boxed, from_fn};
