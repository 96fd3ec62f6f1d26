//! The pages of the listener.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::runtime::Handle;

use super::history::History;
use super::route::Routes;
use super::runtime_probe::RuntimeProbe;
use super::status;
use kooper_runtime::Health;
use kooper_runtime::internal::error::redaction::redact;
use kooper_runtime::internal::metrics::health::Probe;

const TEXT: &str = "text/plain; charset=utf-8";

/// The pages, of which a listener has some.
pub(super) struct Pages {
    registry: Registry,
    health: Health,
    /// The past that the status page shows.
    history: History,
    runtime_probe: RuntimeProbe,
    offers: &'static [&'static str],
    /// The title of the status page, if there is one.
    status: Option<String>,
    routes: Routes,
    /// Where the functions of routes are called.
    program: Handle,
}

/// A page of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Metrics,
    Alive,
    Ready,
    Status,
    StatusStyle,
    StatusScript,
    /// One of the program's own, by its path.
    Route(&'static str),
}

/// The result of looking up a path.
pub(super) enum PageLookup {
    Page(Page),
    /// No page for this request; the response has the reason.
    Nothing(Response<Full<Bytes>>),
}

/// All pages.
pub(super) const EVERY: &[&str] = &["/metrics", "/healthz", "/readyz"];

impl Pages {
    pub(super) fn new(
        registry: Registry,
        health: Health,
        program: Handle,
        offers: &'static [&'static str],
        status: Option<String>,
        routes: Routes,
    ) -> Self {
        let (history, runtime_probe) = (History::default(), RuntimeProbe::new(program.clone()));
        Self { registry, health, history, runtime_probe, offers, status, routes, program }
    }

    /// Records what the status page shows of the past, if there is one.
    pub(super) async fn record(&self) {
        if self.status.is_some() {
            self.history.record(&self.health).await;
        }
    }

    /// The page of a path, or the response if there is none.
    pub(super) fn find(&self, method: &Method, path: &str) -> PageLookup {
        let Some(page) = self.page(path) else {
            let status = self.status.iter().map(|_| "/status");
            let offers: Vec<&str> = status.chain(self.offers.iter().copied()).chain(self.routes.paths()).collect();
            let text = format!("no such page: this listener has {}\n", listed(&offers));
            return PageLookup::Nothing(text_response(StatusCode::NOT_FOUND, text));
        };
        if method == Method::GET || method == Method::HEAD {
            return PageLookup::Page(page);
        }
        let text = format!("{path} takes GET and HEAD only\n");
        let mut rejection = text_response(StatusCode::METHOD_NOT_ALLOWED, text);
        rejection.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        PageLookup::Nothing(rejection)
    }

    fn page(&self, path: &str) -> Option<Page> {
        Some(match path {
            "/status" if self.status.is_some() => Page::Status,
            "/status.css" if self.status.is_some() => Page::StatusStyle,
            "/status.js" if self.status.is_some() => Page::StatusScript,
            _ if !self.offers.contains(&path) => return self.routes.find(path).map(Page::Route),
            "/metrics" => Page::Metrics,
            "/healthz" => Page::Alive,
            _ => Page::Ready,
        })
    }

    /// The response with a page. `query` is that of its URL; `in_detail` is whether the
    /// client may see the reasons of checks.
    pub(super) fn show(&self, page: Page, query: Option<&str>, in_detail: bool) -> Response<Full<Bytes>> {
        let is_verbose = in_detail && is_verbose(query);
        match page {
            Page::Metrics => self.metrics(),
            Page::Alive if is_verbose => verdict(self.alive()),
            Page::Alive => brief(&self.dead()),
            Page::Ready if is_verbose => verdict(self.health.ready()),
            Page::Ready => brief(&self.failing(|probe| probe.ready().is_err())),
            Page::Status => for_browsers("text/html; charset=utf-8", self.status(query)),
            Page::StatusStyle => for_browsers("text/css; charset=utf-8", status::STYLE),
            Page::StatusScript => for_browsers("text/javascript; charset=utf-8", status::SCRIPT),
            Page::Route(path) => text_response(StatusCode::NOT_FOUND, format!("{path} is answered by its function\n")),
        }
    }

    /// The response of a page of the program's own.
    pub(super) async fn route(&self, path: &str, request: &Parts) -> Response<Full<Bytes>> {
        self.routes.answer(path, request, &self.program).await.unwrap_or_else(|| {
            let text = format!("{path} panicked: the log has the reason\n");
            text_response(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }

    fn status(&self, query: Option<&str>) -> String {
        let search = status::search(query);
        let states = status::states(
            &self.health,
            &self.history,
            &status::Query { search: search.clone(), most: status::MOST_ROWS },
        );
        let title = self.status.as_deref().unwrap_or_default();
        status::page(title, &search, &self.health.ready(), &states)
    }

    /// The metrics of this moment.
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
        match (self.health.alive(), self.runtime_probe.check()) {
            (alive, Ok(())) => alive,
            (Ok(_), Err(stalled)) => Err(stalled),
            (Err(reasons), Err(stalled)) => Err(format!("{stalled}\n{reasons}")),
        }
    }

    /// The names of the checks that fail.
    fn failing(&self, fails: impl Fn(&dyn Probe) -> bool) -> Vec<String> {
        self.health.probes().iter().filter(|probe| fails(&***probe)).map(|probe| probe.name()).collect()
    }

    /// The names of the checks that only a restart of the process mends.
    fn dead(&self) -> Vec<String> {
        let stalled = self.runtime_probe.check().is_err().then(|| "runtime".to_owned());
        stalled.into_iter().chain(self.failing(|probe| probe.alive().is_err())).collect()
    }
}

impl Page {
    /// Returns `true` for the probes of kubelets, which an unprotected listener does not limit.
    pub(super) fn is_probe(self) -> bool {
        matches!(self, Self::Alive | Self::Ready)
    }

    /// The path in the permission to read the page. `/readyz` and `/healthz` need that of the
    /// status page, as they show the same reasons, and a role of Kubernetes gives every user access
    /// to their own paths.
    #[cfg(feature = "cli")]
    pub(super) fn permission(self) -> &'static str {
        match self {
            Self::Metrics => "/metrics",
            Self::Alive | Self::Ready | Self::Status | Self::StatusStyle | Self::StatusScript => "/status",
            Self::Route(path) => path,
        }
    }

    /// Returns `true` for the pages that users open in a browser.
    #[cfg(feature = "cli")]
    pub(super) fn is_for_people(self) -> bool {
        matches!(self, Self::Status | Self::StatusStyle | Self::StatusScript)
    }
}

/// Returns `true` for the path of a page that a listener may have by itself.
pub(super) fn is_taken(path: &str) -> bool {
    EVERY.contains(&path) || ["/status", "/status.css", "/status.js"].contains(&path)
}

/// A response that a browser does not guess the type of, keep, or combine with others.
fn for_browsers(content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = response(StatusCode::OK, content_type, body);
    for (header, value) in [
        (CONTENT_SECURITY_POLICY, status::POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(header, HeaderValue::from_static(value));
    }
    response
}

/// Returns `true` if the client asks for the reasons of checks with `?verbose`, as in
/// kube-apiserver.
fn is_verbose(query: Option<&str>) -> bool {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).any(|(name, _)| name == "verbose")
}

/// Which checks fail, and nothing more: kubelets copy it into Events.
fn brief(failing: &[String]) -> Response<Full<Bytes>> {
    if failing.is_empty() {
        return response(StatusCode::OK, TEXT, "ok\n");
    }
    let lines = failing.iter().map(|name| format!("{name}: failed, reason withheld\n"));
    response(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines.collect::<String>())
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

/// The reasons of checks, without known secrets: an error of the user's code may quote one.
fn verdict(verdict: Result<String, String>) -> Response<Full<Bytes>> {
    let (status, text) = match verdict {
        Ok(text) => (StatusCode::OK, text),
        Err(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons),
    };
    let mut text = redact(&text).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    response(status, TEXT, text)
}

/// A response in plain text.
pub(super) fn text_response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    response(status, TEXT, text)
}

/// A refusal that does not last.
pub(super) fn later(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
