//! What a listener serves, and to whom.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::sync::Semaphore;

#[cfg(feature = "cli")]
mod builder;

use super::pages::{Found, Page, Pages, text_response};
#[cfg(feature = "cli")]
pub(crate) use builder::{GuardMaker, Offer, SiteBuilder};

/// The pages of a listener, and what protects them.
pub(super) struct Site {
    pages: Arc<Pages>,
    /// One status page is made at a time.
    turn: Arc<Semaphore>,
    #[cfg(feature = "cli")]
    guard: Option<super::guard::Guard>,
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    certificate: Option<super::certificate::Certificate>,
}

impl Site {
    /// Pages for everyone, without TLS.
    pub(super) fn open(pages: Pages) -> Self {
        Self {
            pages: Arc::new(pages),
            turn: Arc::new(Semaphore::new(1)),
            #[cfg(feature = "cli")]
            guard: None,
            #[cfg(all(feature = "cli", feature = "rustls-tls"))]
            certificate: None,
        }
    }

    /// The response to a request. Every page of a protected listener is behind its
    /// guard.
    pub(super) async fn answer(&self, request: &Parts) -> Response<Full<Bytes>> {
        let page = match self.pages.find(&request.method, request.uri.path()) {
            Found::Page(page) => page,
            Found::Nothing(response) => return response,
        };
        #[cfg(feature = "cli")]
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.check(&request.method, page, &request.headers).await
        {
            return refusal.response();
        }
        let query = request.uri.query();
        if page == Page::Status { self.status(query).await } else { self.pages.show(page, query) }
    }

    /// The status page. With many keys it takes a while, which must not delay probes.
    async fn status(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        // It is never closed.
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let (pages, query) = (Arc::clone(&self.pages), query.map(str::to_owned));
        let made = tokio::task::spawn_blocking(move || {
            // The page is made to its end, even if its client is gone.
            let _turn = turn;
            pages.show(Page::Status, query.as_deref())
        });
        let made = made.await;
        made.unwrap_or_else(|_| {
            let text = "the page cannot be made: the log has the reason\n".to_owned();
            text_response(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }

    /// What accepts TLS connections; `None` without TLS.
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    pub(super) fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        self.certificate.as_ref().map(super::certificate::Certificate::acceptor)
    }
}
