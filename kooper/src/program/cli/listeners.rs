//! The listeners of metrics and probes: one for both, or one for each.

use std::net::SocketAddr;

use prometheus::Registry;
use tokio::runtime::Handle;

use super::args::{Listen, Settings};
use super::connect::Connection;
use crate::error::BoxError;
use crate::metrics::health::Health;
#[cfg(feature = "rustls-tls")]
use crate::program::http::certificate::{Certificate, CertificateError};
use crate::program::http::guard::Guard;
use crate::program::http::{GuardMaker, ListenError, Listener, Offer, Server, SiteBuilder};

/// Bound sockets, and what secures the metrics.
pub(super) struct Listeners {
    main: Option<Listener>,
    /// The listener of probes, unless they are on the main one.
    probes: Option<Option<Listener>>,
    #[cfg(feature = "rustls-tls")]
    certificate: Option<Certificate>,
}

/// Why the metrics cannot be secured.
#[derive(Debug, thiserror::Error)]
enum SecurityError {
    #[error("`--{one}` needs `--{other}`: set both, or none of them")]
    Half { one: &'static str, other: &'static str },
    #[error("metrics and probes cannot both be on {0}: choose another port with `--listen-probes`, or leave it out")]
    SameAddress(SocketAddr),
    #[cfg(feature = "rustls-tls")]
    #[error("{0}; check `--metrics-cert-file` and `--metrics-key-file`")]
    Certificate(CertificateError),
    #[cfg(not(feature = "rustls-tls"))]
    #[error("metrics over HTTPS need the feature `rustls-tls` of kooper: add it, and build the program again")]
    NoTls,
}

impl Listeners {
    /// Binds the addresses of the flags, or the defaults.
    pub(super) fn bind(settings: &Settings) -> Result<Self, BoxError> {
        let at = |default: SocketAddr, bind: fn(SocketAddr) -> Result<Listener, ListenError>| {
            move |listen: Listen| match listen {
                Listen::Default => bind(default).map(Some),
                Listen::Off => Ok(None),
                Listen::At(address) => bind(address).map(Some),
            }
        };
        Self::bind_by(
            settings,
            at(Listener::DEFAULT, Listener::bind),
            at(Listener::DEFAULT_PROBES, Listener::bind_probes),
        )
    }

    /// Binds addresses with functions for the main listener and that of probes.
    pub(super) fn bind_by(
        settings: &Settings,
        main: impl FnOnce(Listen) -> Result<Option<Listener>, ListenError>,
        probes: impl FnOnce(Listen) -> Result<Option<Listener>, ListenError>,
    ) -> Result<Self, BoxError> {
        let pair = match (&settings.metrics_certificate, &settings.metrics_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                return Err(SecurityError::Half { one: "metrics-cert-file", other: "metrics-key-file" }.into());
            }
            (None, Some(_)) => {
                return Err(SecurityError::Half { one: "metrics-key-file", other: "metrics-cert-file" }.into());
            }
        };
        if let (Listen::At(one), Some(Listen::At(other))) = (settings.listen, settings.probes())
            && one == other
            && one.port() != 0
        {
            return Err(SecurityError::SameAddress(one).into());
        }
        if settings.reviews_tokens() && pair.is_none() {
            tracing::warn!(
                "clients send their tokens for /metrics without encryption: set `--metrics-cert-file` and \
                 `--metrics-key-file`"
            );
        }
        if settings.status_page == Some(true) && settings.listen == Listen::Off {
            tracing::warn!("there is no status page: `--listen off` disables its listener");
        }
        #[cfg(not(feature = "rustls-tls"))]
        if pair.is_some() {
            return Err(SecurityError::NoTls.into());
        }
        Ok(Self {
            #[cfg(feature = "rustls-tls")]
            certificate: pair
                .map(|(certificate, key)| Certificate::load(certificate, key))
                .transpose()
                .map_err(SecurityError::Certificate)?,
            main: main(settings.listen)?,
            probes: settings.probes().map(probes).transpose()?,
        })
    }

    /// The addresses of the main listener and of probes, for the log.
    pub(super) fn addresses(&self) -> (Option<SocketAddr>, Option<Option<SocketAddr>>) {
        let address = |listener: &Option<Listener>| listener.as_ref().map(Listener::local_addr);
        (address(&self.main), self.probes.as_ref().map(address))
    }

    /// Starts to answer. The servers stop when they are dropped.
    pub(super) fn serve(
        self,
        program: &str,
        settings: &Settings,
        connection: Option<&Connection>,
        registry: &Registry,
        health: &Health,
        runtime: &Handle,
    ) -> Result<Vec<Server>, ListenError> {
        let serve =
            |listener, site: SiteBuilder| site.serve(listener, registry.clone(), health.clone(), runtime.clone());
        let mut servers = Vec::new();
        if let Some(listener) = self.main {
            let offer = if self.probes.is_some() { Offer::Metrics } else { Offer::Everything };
            let status = (settings.status_page == Some(true)).then(|| settings.installation(program).to_string());
            let connection = connection.filter(|_| settings.reviews_tokens());
            let site = SiteBuilder::new(offer).status_page(status).guard(connection.map(guard));
            #[cfg(feature = "rustls-tls")]
            let site = site.certificate(self.certificate);
            servers.push(serve(listener, site)?);
        }
        if let Some(listener) = self.probes.flatten() {
            servers.push(serve(listener, SiteBuilder::new(Offer::Probes))?);
        }
        Ok(servers)
    }
}

/// The guard, with a client of its own: handlers that block the program's runtime do
/// not delay reviews.
fn guard(connection: &Connection) -> GuardMaker {
    let make = connection.another.clone();
    Box::new(move || make().map(Guard::new).map_err(std::io::Error::other))
}
