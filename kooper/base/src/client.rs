//! The layers around the requests of a controller's client.

mod abort;
mod runtime;
mod stack;

pub use abort::abort;
pub use runtime::on_current_runtime;
pub use stack::{ClientStack, Next, RequestLayer, ResponseBody, boxed, from_fn};
