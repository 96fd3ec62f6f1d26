//! The layer that passes on the pause that the API server requests.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{Next, RequestLayer, ResponseBody, from_fn};
use crate::error::BoxError;
use crate::error::refusal::LONGEST_PAUSE;

/// A longer body is no error of the API server, and is cut off.
const BODY: usize = 1 << 20;

/// Copies the header `Retry-After` of a 429 or 503 to the `Status` of its body, as kube's client drops the headers of an
/// error. API Priority and Fairness rejects requests with this header and a text.
#[must_use]
pub fn retry_after() -> RequestLayer {
    from_fn(|request, next: Next| async move {
        let uri = request.uri().clone();
        let response = next.oneshot(request).await?;
        let is_busy = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        match requested_pause(response.headers()) {
            Some(pause) if is_busy && !is_proxied(uri.path()) => with_status(response, pause.as_secs()).await,
            _ => Ok(response),
        }
    })
}

async fn with_status(response: Response<ResponseBody>, seconds: u64) -> Result<Response<ResponseBody>, BoxError> {
    let (mut parts, mut body) = response.into_parts();
    let mut text = Vec::new();
    while text.len() < BODY
        && let Some(frame) = body.frame().await
    {
        text.extend_from_slice(frame?.data_ref().unwrap_or(&Bytes::new()));
    }
    let status = status(&text, parts.status, seconds);
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    Ok(Response::from_parts(parts, body.boxed_unsync()))
}

/// Returns `true` if a pod, a Service or a node responds behind the API server.
fn is_proxied(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    parts.windows(3).any(|part| matches!(part[0], "pods" | "services" | "nodes") && part[2] == "proxy")
}

/// The pause of the header `Retry-After`, in whole seconds. A date is none.
#[must_use]
pub fn requested_pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

/// The `Status` of the body, or one with its text, that has the seconds.
fn status(text: &[u8], code: StatusCode, seconds: u64) -> Value {
    let known = serde_json::from_slice(text).ok().filter(|status: &Value| status["kind"] == "Status");
    let reason = if code == StatusCode::TOO_MANY_REQUESTS { "TooManyRequests" } else { "ServiceUnavailable" };
    let mut status = known.unwrap_or_else(|| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
            "message": String::from_utf8_lossy(text).trim(), "reason": reason,
        })
    });
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    let known = &mut status["details"]["retryAfterSeconds"];
    if known.as_u64().is_none_or(|known| known == 0) {
        *known = seconds.into();
    }
    status
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kube::Client;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::client::ClientStack;
    use crate::error::refusal::{ApiStatus, Cause};

    /// Why a request fails that gets this response.
    async fn cause(code: u16, header: &'static str, body: &'static str) -> (Cause, String) {
        let server = service_fn(move |_: Request<Body>| async move {
            let response = Response::builder().status(code).header("Retry-After", header);
            response.body(Body::from(body.as_bytes().to_vec()))
        });
        let client = ClientStack::new(Client::new(server, "shop")).with([retry_after()]).client();
        let error = client.request_text(Request::get("/").body(Vec::new()).unwrap()).await.expect_err("it is rejected");
        let status = ApiStatus::behind(&error).unwrap();
        (status.cause.clone(), status.to_string())
    }

    #[tokio::test]
    async fn a_rejected_request_is_repeated_after_the_time_in_the_header() {
        let busy = |seconds| Cause::Busy(Duration::from_secs(seconds));
        let (by_text, message) = cause(429, "20", "Too many requests, please try again later.\n").await;
        assert_eq!(by_text, busy(20));
        assert!(message.contains("Too many requests, please try again later."), "{message}");
        assert_eq!(cause(503, "7", "").await.0, busy(7));
        assert_eq!(cause(429, "86400", "a proxy").await.0, Cause::Busy(LONGEST_PAUSE));
        let status = r#"{"kind":"Status","code":429,"message":"m","details":{"retryAfterSeconds":3}}"#;
        assert_eq!(cause(429, "20", status).await.0, busy(3), "that of the server is more exact");
        let status = r#"{"kind":"Status","code":429,"message":"m","details":{"retryAfterSeconds":1000000000}}"#;
        assert_eq!(cause(429, "", status).await.0, Cause::Busy(LONGEST_PAUSE), "by the body alone");
        assert_eq!(cause(503, "Wed, 21 Oct 2026 07:28:00 GMT", "gone").await.0, Cause::Other);
        assert_eq!(cause(500, "20", "broken").await.0, Cause::Other);
    }

    #[test]
    fn only_responses_from_behind_the_api_server_are_left_alone() {
        assert!(is_proxied("/api/v1/namespaces/a/services/b/proxy/x"));
        assert!(!is_proxied("/api/v1/namespaces/proxy/configmaps/proxy"));
        assert!(!is_proxied("/apis/proxy.example.com/v1/proxies"));
    }
}
