//! From a request to its response.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use kooper_access::GoDuration;
use kooper_runtime::internal::error::{chain, panic_text, public_chain};
use tokio::time::{Instant, timeout_at};

use super::Shared;
use crate::admission::Admission;
use crate::review::{self, ReviewError, Verdict};
use crate::webhook::{Rules, Webhook};

/// The largest body, in bytes: an object of the largest size that the API server accepts,
/// twice, and the rest of a review.
pub(super) const BODY: usize = 7 * 1024 * 1024;

/// A larger body needs a part of [`ROOM`], in bytes.
const LARGE: u64 = 64 * 1024;

/// The limit of all large bodies together, in KiB: the memory of a pod has a limit, and clients may send slowly.
pub(super) const ROOM: usize = 64 * 1024;

/// The time that a caller waits, unless it states another one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The share of the caller's time that a request has, in per cent. After it the caller would
/// not hear the answer.
const SHARE: u32 = 90;

/// Why a request has no decision.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the server has no such webhook")]
    NotFound,
    #[error("webhooks accept only the method POST")]
    Method,
    #[error("the body is larger than {BODY} bytes")]
    TooLarge,
    #[error("the body did not arrive in time")]
    Slow,
    #[error("other large requests take all memory that there is for them")]
    Crowded,
    #[error("the body cannot be read")]
    Body,
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("the function `{webhook}` did not return within {} ms", within.as_millis())]
    Timeout { webhook: String, within: Duration },
    #[error("the function `{webhook}` panicked")]
    Panicked { webhook: String },
    #[error("the function `{webhook}` failed: {message}")]
    Failed { webhook: String, message: String },
}

impl Failure {
    /// The code of the response, and its reason as Kubernetes names it.
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::Crowded => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::Body | Self::Review(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Timeout { .. } | Self::Panicked { .. } | Self::Failed { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
            }
        }
    }
}

/// The response to a request.
pub(super) async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    // Not of other paths, of which there is no end.
    let in_flight = shared.webhooks.contains_key(&path).then(|| shared.metrics.begin(&path));
    let mut denied = false;
    let (status, body) = match decide(shared, request).await {
        Ok(decided) => {
            denied = decided.denied;
            (StatusCode::OK, decided.body)
        }
        Err(failure) => {
            let (status, reason) = failure.code();
            (status, review::failure(status.as_u16(), reason, &failure.to_string()))
        }
    };
    if let Some(in_flight) = in_flight {
        in_flight.ended(status, denied);
    }
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
    }
    // The rest of a body that was not read would be taken for the next request.
    if shared.closing.load(Ordering::Relaxed) || status != StatusCode::OK {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn decide(shared: &Shared, request: Request<Incoming>) -> Result<Decision, Failure> {
    let began = Instant::now();
    let (webhook, quick) = shared.webhooks.get(request.uri().path()).ok_or(Failure::NotFound)?;
    if request.method() != Method::POST {
        return Err(Failure::Method);
    }
    let within = time_of(request.uri().query());
    let deadline = began + within;
    let size = request.body().size_hint().upper().unwrap_or(u64::MAX).min(BODY as u64);
    let room = (size > LARGE).then(|| shared.room.acquire_many(size.div_ceil(1024) as u32));
    let _room = timeout_at(deadline, OptionFuture::from(room)).await.map_err(|_| Failure::Crowded)?;
    let collected = Limited::new(request.into_body(), BODY).collect();
    let body = match timeout_at(deadline, collected).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Failure::TooLarge),
        Ok(Err(_)) => return Err(Failure::Body),
        Err(_) => return Err(Failure::Slow),
    };
    let name = || webhook.name().to_owned();
    let size = body.len();
    match shared.threads.call(webhook, quick, size, deadline, call(Arc::clone(webhook), body)).await {
        Ok(Some(decided)) => decided,
        Ok(None) => {
            tracing::warn!(webhook = webhook.name(), "the function did not return within {within:?}");
            Err(Failure::Timeout { webhook: name(), within })
        }
        Err(panic) => {
            let text = panic_text(&*panic);
            tracing::error!(webhook = webhook.name(), "the function panicked: {text}");
            shared.metrics.panics.inc();
            Err(Failure::Panicked { webhook: name() })
        }
    }
}

/// A response to a request that was decided on.
struct Decision {
    denied: bool,
    body: Vec<u8>,
}

/// Calls a function for a body.
async fn call(webhook: Arc<Webhook>, body: Bytes) -> Result<Decision, Failure> {
    let request = review::Request::parse(&body)?;
    let Rules { kind, operations, .. } = &webhook.rules;
    request.check(kind, operations)?;
    let admission = Admission::from(request.info(kind));
    let decided = match webhook.decide(&request, admission.clone()) {
        Ok(decision) => decision.await,
        Err(error) => Err(error),
    };
    match decided {
        Ok(verdict) => {
            let denied = matches!(verdict, Verdict::Denied(_));
            let body = review::response(&request, &webhook.rules.kind, &verdict, admission.notes());
            Ok(Decision { denied, body })
        }
        Err(error) => {
            let key = admission.key();
            tracing::warn!(webhook = webhook.name(), %key, "the function failed: {}", chain(&*error));
            // The causes may quote what the caller must not see.
            let message = public_chain(&*error);
            Err(Failure::Failed { webhook: webhook.name().to_owned(), message })
        }
    }
}

/// The time for a request, from the time that its caller waits, such as `timeout=5s`.
fn time_of(query: Option<&str>) -> Duration {
    let given = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("timeout="));
    let given = given.and_then(|text| text.parse::<GoDuration>().ok()).map(Duration::from);
    given.filter(|time| !time.is_zero() && *time <= Duration::from_secs(60)).unwrap_or(TIMEOUT) * SHARE / 100
}
