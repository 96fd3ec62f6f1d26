//! The layer that only sends requests while leadership is held.

use std::future::pending;

use futures_util::FutureExt;
use tower::ServiceExt;

use super::Leadership;
use super::shard::SentIn;
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
        "{method} {path} was not sent: another replica works on the shard of the object; return from the call, as \
         that replica does the work"
    )]
    NotOwning { method: http::Method, path: String },
    #[error(
        "{method} {path} was aborted: this process lost leadership while it waited for the response; the server may \
         have processed it"
    )]
    Lost { method: http::Method, path: String },
    #[error("the response was cut off: this process lost leadership while it arrived")]
    Cut,
}

/// Returns `true` if a request was rejected because this process is not the leader, or does not own the shard.
pub fn is_fenced(error: &kube::Error) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source()).any(<dyn std::error::Error>::is::<FenceError>)
}

/// Sends requests only while leadership is held, and those of a call only in the term of its shard.
pub(super) fn layer(leadership: Leadership) -> RequestLayer {
    from_fn(move |request, next| {
        let leadership = leadership.clone();
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let shard = request.extensions().get::<SentIn>().cloned();
            let term = leadership.term();
            if !leadership.is_term(term) {
                return Err(FenceError::NotLeading { method, path }.into());
            }
            if shard.as_ref().is_some_and(|SentIn(shard)| !shard.is_held()) {
                return Err(FenceError::NotOwning { method, path }.into());
            }
            let ended = async move {
                let of_shard = async {
                    match &shard {
                        Some(SentIn(shard)) => shard.ended().cancelled().await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = leadership.ended(term) => {}
                    () = of_shard => {}
                }
            };
            let mut ended = ended.boxed();
            let response = tokio::select! {
                biased;
                () = &mut ended => return Err(FenceError::Lost { method, path }.into()),
                response = next.oneshot(request) => response?,
            };
            let lost = ended.map(|()| FenceError::Cut.into());
            Ok(response.map(|body| abort(body, lost)))
        }
    })
}
