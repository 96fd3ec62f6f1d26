//! The pages of the listener.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::runtime::Handle;

use super::pulse::Pulse;
use crate::metrics::health::Health;

const TEXT: &str = "text/plain; charset=utf-8";

/// The three pages.
pub(super) struct Pages {
    registry: Registry,
    health: Health,
    pulse: Pulse,
}

impl Pages {
    pub(super) fn new(registry: Registry, health: Health, program: Handle) -> Self {
        Self { registry, health, pulse: Pulse::new(program) }
    }

    pub(super) fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let page: fn(&Self) -> Response<Full<Bytes>> = match path {
            "/metrics" => Self::metrics,
            "/healthz" => |pages| verdict(pages.alive()),
            "/readyz" => |pages| verdict(pages.health.ready()),
            _ => {
                let text = "no such page: this listener has /metrics, /healthz and /readyz\n";
                return response(StatusCode::NOT_FOUND, TEXT, text);
            }
        };
        if method == Method::GET || method == Method::HEAD {
            return page(self);
        }
        let text = format!("{path} takes GET and HEAD only\n");
        let mut rejection = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
        rejection.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        rejection
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        match TextEncoder::new().encode_to_string(&self.registry.gather()) {
            Ok(text) => response(StatusCode::OK, TEXT_FORMAT, text),
            Err(error) => {
                let text = format!("the metrics cannot be written: {error}\n");
                response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
            }
        }
    }

    fn alive(&self) -> Result<String, String> {
        match (self.health.alive(), self.pulse.check()) {
            (alive, Ok(())) => alive,
            (Ok(_), Err(stalled)) => Err(stalled),
            (Err(reasons), Err(stalled)) => Err(format!("{stalled}\n{reasons}")),
        }
    }
}

fn verdict(verdict: Result<String, String>) -> Response<Full<Bytes>> {
    let (status, mut text) = match verdict {
        Ok(text) => (StatusCode::OK, text),
        Err(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    response(status, TEXT, text)
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
