//! The layers around the requests of a controller's client.

pub(crate) mod abort;
mod runtime;
pub(crate) mod stack;

pub(crate) use abort::abort;
pub(crate) use runtime::on_current_runtime;
pub(crate) use stack::{ClientStack, RequestLayer, ResponseBody, from_fn};
