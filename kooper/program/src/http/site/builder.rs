//! Makes the site of a listener.

use std::io;
use std::sync::Arc;

use prometheus::Registry;
use tokio::runtime::Handle;

use super::Site;
#[cfg(feature = "rustls-tls")]
use crate::http::certificate::Certificate;
use crate::http::guard::Guard;
use crate::http::pages::{EVERY, Pages};
use crate::http::{ListenError, Listener, Server};
use kooper_runtime::Health;

/// Makes the guard on the runtime of the listener, as its client runs there.
pub(crate) type GuardMaker = Box<dyn FnOnce() -> io::Result<Guard> + Send>;

/// Which pages a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    Everything,
    Metrics,
    Probes,
}

/// The configuration of a listener, from which its thread builds a `Site`.
pub(crate) struct SiteBuilder {
    offer: Offer,
    status: Option<String>,
    guard: Option<GuardMaker>,
    #[cfg(feature = "rustls-tls")]
    certificate: Option<Certificate>,
}

impl SiteBuilder {
    pub(crate) fn new(offer: Offer) -> Self {
        Self {
            offer,
            status: None,
            guard: None,
            #[cfg(feature = "rustls-tls")]
            certificate: None,
        }
    }

    /// With a status page of this title, if there is one.
    pub(crate) fn status_page(mut self, title: Option<String>) -> Self {
        self.status = title;
        self
    }

    pub(crate) fn guard(mut self, guard: Option<GuardMaker>) -> Self {
        self.guard = guard;
        self
    }

    #[cfg(feature = "rustls-tls")]
    pub(crate) fn certificate(mut self, certificate: Option<Certificate>) -> Self {
        self.certificate = certificate;
        self
    }

    /// Starts to answer.
    pub(crate) fn serve(
        self,
        mut listener: Listener,
        registry: Registry,
        health: Health,
        program: Handle,
    ) -> Result<Server, ListenError> {
        let is_local = listener.is_loopback();
        if self.status.is_some() && self.guard.is_none() && !is_local {
            return Err(ListenError::OpenStatusPage { address: listener.local_addr() });
        }
        listener.check_routes()?;
        let routes = std::mem::take(&mut listener.routes);
        listener.serve_site(Box::new(move || {
            let offers = match self.offer {
                Offer::Everything => EVERY,
                Offer::Metrics => &["/metrics"],
                Offer::Probes => &["/healthz", "/readyz"],
            };
            let pages = Pages::new(registry, health, program).only(offers).with_status(self.status).with_routes(routes);
            let mut site = Site::new(pages).with_local(is_local);
            site.guard = self.guard.map(|make| make()).transpose()?.map(Arc::new);
            #[cfg(feature = "rustls-tls")]
            {
                site.certificate = self.certificate;
            }
            Ok(site)
        }))
    }
}
