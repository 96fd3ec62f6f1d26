//! The pages of a listener, and access control for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use super::pages::{Page, PageLookup, Pages, later, text_response};
use kooper_serving::{Limits, Source};

/// Maximum number of concurrent requests of a source, except for probes.
pub(super) const MOST_OF_SOURCE: usize = 16;

/// For how long the metrics that were gathered are served again.
pub(super) const KEPT: Duration = Duration::from_secs(1);

/// The pages of a listener, and what protects them.
pub(super) struct Site {
    pages: Arc<Pages>,
    /// `true` if only this machine can connect. Its users then see everything, and requests to a foreign host name are
    /// refused, as they may come from another site in a browser.
    is_local: bool,
    requests: Arc<Limits>,
    /// The metrics that were gathered last. It is locked while they are gathered.
    metrics: Arc<Mutex<Option<GatheredMetrics>>>,
    /// One status page is made at a time.
    turn: Arc<Semaphore>,
    #[cfg(feature = "cli")]
    guard: Option<Arc<super::guard::Guard>>,
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    certificate: Option<super::certificate::Certificate>,
}

/// Metrics, and when they were complete.
struct GatheredMetrics {
    response: Response<Full<Bytes>>,
    at: Instant,
}

impl Site {
    /// Pages for everyone, without TLS.
    pub(super) fn new(pages: Pages, is_local: bool) -> Self {
        Self {
            pages: Arc::new(pages),
            is_local,
            requests: Limits::new(MOST_OF_SOURCE),
            metrics: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
            #[cfg(feature = "cli")]
            guard: None,
            #[cfg(all(feature = "cli", feature = "rustls-tls"))]
            certificate: None,
        }
    }

    #[cfg(feature = "cli")]
    pub(super) fn with_guard(mut self, guard: Option<super::guard::Guard>) -> Self {
        self.guard = guard.map(Arc::new);
        self
    }

    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    pub(super) fn with_certificate(mut self, certificate: Option<super::certificate::Certificate>) -> Self {
        self.certificate = certificate;
        self
    }

    /// Records what the status page shows of the past, until it is dropped.
    pub(super) fn record(&self) -> BoxFuture<'static, ()> {
        let pages = Arc::clone(&self.pages);
        async move { pages.record().await }.boxed()
    }

    #[cfg(feature = "cli")]
    fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    #[cfg(not(feature = "cli"))]
    fn is_guarded(&self) -> bool {
        false
    }

    /// The metrics, gathered at most once a second and by one thread. They may take a while, which must not delay probes.
    async fn metrics(&self) -> Response<Full<Bytes>> {
        let mut last = Arc::clone(&self.metrics).lock_owned().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < KEPT) {
            return last.response.clone();
        }
        let pages = Arc::clone(&self.pages);
        let make = move || {
            // They are gathered to their end, even if the client is gone.
            let response = pages.show(Page::Metrics, None, false);
            *last = Some(GatheredMetrics { response: response.clone(), at: Instant::now() });
            response
        };
        made(Box::new(make)).await
    }

    /// The status page. With many keys it takes a while, which must not delay probes.
    async fn status(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        // It is never closed.
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let (pages, query) = (Arc::clone(&self.pages), query.map(str::to_owned));
        let make = move || {
            // The page is made to its end, even if its client is gone.
            let _turn = turn;
            pages.show(Page::Status, query.as_deref(), true)
        };
        made(Box::new(make)).await
    }

    /// The response to a request, whose body is not read. Every page of a protected listener is behind its guard.
    pub(super) async fn answer(&self, request: &Parts, source: Source) -> Response<Full<Bytes>> {
        if self.is_local && !names_this_machine(&request.headers) {
            let text = "this listener is for this machine only: open it as `localhost` or `127.0.0.1`\n".to_owned();
            return text_response(StatusCode::FORBIDDEN, text);
        }
        let page = match self.pages.find(&request.method, request.uri.path()) {
            PageLookup::Page(page) => page,
            PageLookup::Nothing(response) => return response,
        };
        let running = (!page.is_probe() || self.is_guarded()).then(|| self.requests.begin(source));
        if matches!(running, Some(None)) {
            let text = "too many requests from this address are being answered: try again later\n".to_owned();
            return later(text_response(StatusCode::TOO_MANY_REQUESTS, text));
        }
        #[cfg(feature = "cli")]
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.check(&request.method, page, &request.headers, source).await
        {
            return refusal.response();
        }
        let query = request.uri.query();
        match page {
            Page::Metrics => self.metrics().await,
            Page::Status => self.status(query).await,
            Page::Route(path) => self.pages.route(path, request).await,
            page => {
                // A check of the program may block.
                let (pages, query) = (Arc::clone(&self.pages), query.map(str::to_owned));
                let in_detail = self.is_local || self.is_guarded();
                made(Box::new(move || pages.show(page, query.as_deref(), in_detail))).await
            }
        }
    }

    /// The TLS acceptor; `None` without TLS.
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    pub(super) fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        self.certificate.as_ref().map(super::certificate::Certificate::acceptor)
    }
}

/// Returns `true` if the `Host` header is missing, or a name or an address of this machine. DNS
/// rebinding fails: a browser sends the foreign name that was resolved to this machine.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(authority) = host.as_bytes().try_into() as Result<http::uri::Authority, _> else { return false };
    let host = authority.host().trim_end_matches('.');
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let is_local_name = || {
        let name = host.to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost")
    };
    address.parse::<std::net::IpAddr>().map_or_else(|_| is_local_name(), |address| address.to_canonical().is_loopback())
}

/// A page that is made by a thread of its own.
async fn made(make: Box<dyn FnOnce() -> Response<Full<Bytes>> + Send>) -> Response<Full<Bytes>> {
    tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| {
        let text = "the page cannot be rendered: see the log\n".to_owned();
        text_response(StatusCode::INTERNAL_SERVER_ERROR, text)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_names_and_addresses_of_this_machine_are_its_own() {
        let is_own =
            |host: &'static str| names_this_machine(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]));
        for own in
            ["localhost", "LOCALHOST:8080", "shop.localhost:1", "localhost.", "127.0.0.1:8080", "127.1.2.3", "[::1]:80"]
        {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "example.com",
            "localhost.example.com:8080",
            "127.0.0.1.nip.io",
            "notlocalhost",
            "10.0.0.1",
            "[::2]",
            "",
            "a b",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
        assert!(names_this_machine(&HeaderMap::new()), "a browser always sends one");
    }
}
