//! The layer that only sends requests while leadership is held.

use tower::ServiceExt;

use super::Leadership;
use crate::client::{RequestLayer, abort, from_fn};

/// Why the fence stopped a request.
#[derive(Debug, thiserror::Error)]
enum FenceError {
    #[error(
        "{method} {path} was not sent: this process is not the leader; return from the call, as the leader does the \
         work"
    )]
    NotLeading { method: http::Method, path: String },
    #[error(
        "{method} {path} was aborted: this process lost leadership while it waited for the response; the server may \
         have processed it"
    )]
    Lost { method: http::Method, path: String },
    #[error("the response was cut off: this process lost leadership while it arrived")]
    Cut,
}

/// Returns `true` if a request was rejected because this process is not the leader.
pub fn is_fenced(error: &kube::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).any(<dyn std::error::Error>::is::<FenceError>)
}

/// Sends requests only while leadership is held.
pub(super) fn layer(leadership: Leadership) -> RequestLayer {
    from_fn(move |request, next| {
        let leadership = leadership.clone();
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let term = leadership.term();
            if !leadership.is_term(term) {
                return Err(FenceError::NotLeading { method, path }.into());
            }
            let response = tokio::select! {
                biased;
                () = leadership.ended(term) => return Err(FenceError::Lost { method, path }.into()),
                response = next.oneshot(request) => response?,
            };
            let lost = async move {
                leadership.ended(term).await;
                FenceError::Cut.into()
            };
            Ok(response.map(|body| abort(body, lost)))
        }
    })
}
