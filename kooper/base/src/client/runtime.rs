//! The layer for a client that the user's code shares with the program.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;
use tracing::Instrument;

use super::{RequestLayer, from_fn};

/// Sends requests on the current runtime, from whichever thread they come.
/// A connection belongs to the runtime that opened it, and serves others later: one that
/// a handler opened would stand still while the handler's threads are blocked.
///
/// `None` outside of a runtime with several threads.
#[must_use]
pub fn on_current_runtime() -> Option<RequestLayer> {
    let several = |runtime: &Handle| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
    let runtime = Handle::try_current().ok().filter(several)?;
    Some(from_fn(move |request, next| {
        let sending = runtime.spawn(next.oneshot(request).in_current_span());
        // A caller that no longer waits does not want the request either.
        let sending = AbortOnDropHandle::new(sending);
        async move { sending.await? }
    }))
}
