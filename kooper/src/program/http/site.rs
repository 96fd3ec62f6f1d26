//! What a listener serves, and to whom.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;

#[cfg(feature = "cli")]
mod builder;

use super::pages::{Found, Pages};
#[cfg(feature = "cli")]
pub(crate) use builder::{GuardMaker, Offer, SiteBuilder};

/// The pages of a listener, and what protects them.
pub(super) struct Site {
    pages: Arc<Pages>,
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
            && let Err(refusal) = guard.check(&request.method, request.uri.path(), &request.headers).await
        {
            return refusal.response();
        }
        page(&self.pages)
    }

    /// What accepts TLS connections; `None` without TLS.
    #[cfg(all(feature = "cli", feature = "rustls-tls"))]
    pub(super) fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        self.certificate.as_ref().map(super::certificate::Certificate::acceptor)
    }
}
