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

/// The pages, of which a listener has some.
pub(super) struct Pages {
    registry: Registry,
    health: Health,
    pulse: Pulse,
    offers: &'static [&'static str],
}

/// A page of a listener.
pub(super) type Page = fn(&Pages) -> Response<Full<Bytes>>;

/// What there is at a path.
pub(super) enum Found {
    Page(Page),
    /// No page for this request; the response has the reason.
    Nothing(Response<Full<Bytes>>),
}

/// All pages.
pub(super) const EVERY: &[&str] = &["/metrics", "/healthz", "/readyz"];

impl Pages {
    pub(super) fn new(registry: Registry, health: Health, program: Handle) -> Self {
        Self { registry, health, pulse: Pulse::new(program), offers: EVERY }
    }

    /// Only these pages.
    #[cfg(feature = "cli")]
    pub(super) fn only(mut self, offers: &'static [&'static str]) -> Self {
        self.offers = offers;
        self
    }

    /// The page of a path, or the response if there is none.
    pub(super) fn find(&self, method: &Method, path: &str) -> Found {
        let page: Page = match path {
            _ if !self.offers.contains(&path) => {
                let text = format!("no such page: this listener has {}\n", listed(self.offers));
                return Found::Nothing(text_response(StatusCode::NOT_FOUND, text));
            }
            "/metrics" => Self::metrics,
            "/healthz" => |pages| verdict(pages.alive()),
            _ => |pages| verdict(pages.health.ready()),
        };
        if method == Method::GET || method == Method::HEAD {
            return Found::Page(page);
        }
        let text = format!("{path} takes GET and HEAD only\n");
        let mut rejection = text_response(StatusCode::METHOD_NOT_ALLOWED, text);
        rejection.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        Found::Nothing(rejection)
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

/// `a, b and c`
fn listed(paths: &[&str]) -> String {
    match paths {
        [several @ .., before, last] => {
            several.iter().map(|path| format!("{path}, ")).collect::<String>() + &format!("{before} and {last}")
        }
        one => one.concat(),
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

/// A response in plain text.
pub(super) fn text_response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    response(status, TEXT, text)
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
