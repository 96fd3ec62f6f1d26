//! The layers around the requests of a controller's client.

mod abort;
mod retry_after;
mod runtime;
mod stack;

pub use abort::abort;
pub use retry_after::{requested_pause, retry_after};
pub use runtime::on_current_runtime;
pub use stack::{ClientStack, Next, RequestLayer, ResponseBody, boxed, from_fn};
