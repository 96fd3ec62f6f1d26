//! The layer by which a test can cut off a client, as the end of a process does.

use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use kooper_runtime::internal::client::{RequestLayer, abort, from_fn};

/// Why a request of controllers that were killed fails.
pub(crate) const KILLED: &str = "the controllers were killed";

/// Once `dead` is cancelled, running requests are dropped, no further request reaches
/// the server, and no response arrives.
pub(crate) fn kill_layer(dead: CancellationToken) -> RequestLayer {
    from_fn(move |request, next| {
        let dead = dead.clone();
        async move {
            let response = dead.run_until_cancelled(next.oneshot(request)).await.ok_or(KILLED)??;
            let killed = async move {
                dead.cancelled_owned().await;
                KILLED.into()
            };
            Ok(response.map(|body| abort(body, killed)))
        }
    })
}
