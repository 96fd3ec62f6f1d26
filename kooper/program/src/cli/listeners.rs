//! The listeners of metrics and probes: one for both, or one for each.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use prometheus::Registry;
use tokio::runtime::Handle;

use super::args::{Listen, Settings};
use super::connect::Connection;
use super::invocation::Invocation;
#[cfg(feature = "rustls-tls")]
use crate::http::certificate::{Certificate, CertificateError, MakeError};
use crate::http::guard::Guard;
use crate::http::{GuardMaker, ListenError, Listener, Server};
use kooper_runtime::{BoxError, Health};

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
pub(super) enum SecurityError {
    #[error("`--{one}` needs `--{other}`: set both, or none of them")]
    Half { one: &'static str, other: &'static str },
    #[error("metrics and probes cannot both be on {0}: choose another port with `--listen-probes`, or with `--listen`")]
    SameAddress(SocketAddr),
    #[cfg(feature = "rustls-tls")]
    #[error("{0}; check `--metrics-cert-file` and `--metrics-key-file`")]
    Certificate(CertificateError),
    #[cfg(feature = "rustls-tls")]
    #[error(transparent)]
    SelfSigned(#[from] MakeError),
    #[cfg(not(feature = "rustls-tls"))]
    #[error(
        "tokens, and metrics over HTTPS, need the feature `rustls-tls` of kooper: add it, and build the program again, or \
         start with `--metrics-auth none` and without a certificate"
    )]
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
        let pair = certificate_files(settings)?;
        if let Listen::At(one) = settings.listen
            && settings.probes() == Some(Listen::At(one))
            && one.port() != 0
        {
            return Err(SecurityError::SameAddress(one).into());
        }
        if settings.status_page == Some(true) && settings.listen == Listen::Off {
            tracing::warn!("there is no status page: `--listen off` disables its listener");
        }
        #[cfg(not(feature = "rustls-tls"))]
        if pair.is_some() || settings.reviews_tokens() {
            return Err(SecurityError::NoTls.into());
        }
        #[cfg(feature = "rustls-tls")]
        let certificate = certificate(pair, settings)?;
        let main = main(settings.listen)?;
        let address_of_main = main.as_ref().map(Listener::local_addr);
        let probes = match settings.probes().map(probes).transpose() {
            // No other program uses the port: the default of one may be the address of the other.
            Err(ListenError::BindProbes { address, error })
                if error.kind() == ErrorKind::AddrInUse
                    && address_of_main.is_some_and(|main| is_included(main, address)) =>
            {
                return Err(SecurityError::SameAddress(address).into());
            }
            probes => probes?,
        };
        let listeners = Self {
            main,
            probes,
            #[cfg(feature = "rustls-tls")]
            certificate,
        };
        listeners.check_exposure(settings)?;
        Ok(listeners)
    }

    /// Warns where clients besides this machine and the users of the cluster see more than probes.
    fn check_exposure(&self, settings: &Settings) -> Result<(), ListenError> {
        let Some(main) = self.main.as_ref().filter(|main| !main.is_loopback() && !settings.reviews_tokens()) else {
            return Ok(());
        };
        let address = main.local_addr();
        if settings.status_page == Some(true) {
            return Err(ListenError::OpenStatusPage { address });
        }
        if settings.metrics_auth.is_none() {
            tracing::warn!(
                "anyone who can reach {address} can read /metrics: start with `--metrics-auth token`, or with \
                 `--listen 127.0.0.1:{}` for this machine only, or with `--metrics-auth none` if that is intended",
                address.port()
            );
        }
        Ok(())
    }

    /// The addresses of the main listener and of probes, for the log.
    pub(super) fn addresses(&self) -> (Option<SocketAddr>, Option<Option<SocketAddr>>) {
        let address = |listener: &Option<Listener>| listener.as_ref().map(Listener::local_addr);
        (address(&self.main), self.probes.as_ref().map(address))
    }

    /// Starts to answer. The servers stop when they are dropped.
    pub(super) fn serve(
        self,
        Invocation { app, settings }: &Invocation<'_>,
        connection: Option<&Connection>,
        registry: &Registry,
        health: &Health,
        runtime: &Handle,
    ) -> Result<Vec<Server>, ListenError> {
        let serve = |listener: Listener| listener.serve(registry.clone(), health.clone(), runtime.clone());
        let mut servers = Vec::new();
        if let Some(mut listener) = self.main {
            let connection = connection.filter(|_| settings.reviews_tokens());
            // Behind a guard, the reasons of checks can be read, too.
            if self.probes.is_some() && connection.is_none() {
                listener = listener.only(&["/metrics"]);
            }
            if settings.status_page == Some(true) {
                listener = listener.status_page(settings.installation(app.name).to_string());
            }
            let guard = connection.map(|connection| guard(connection, settings.metrics_audience.clone()));
            listener = listener.routes(app.routes.clone()).guard(guard);
            #[cfg(feature = "rustls-tls")]
            let listener = listener.certificate(self.certificate);
            servers.push(serve(listener)?);
        }
        if let Some(listener) = self.probes.flatten() {
            servers.push(serve(listener.only(&["/healthz", "/readyz"]))?);
        }
        Ok(servers)
    }
}

/// Returns `true` if one of two addresses includes the other.
fn is_included(one: SocketAddr, other: SocketAddr) -> bool {
    let has_every_address = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && (has_every_address || one.ip() == other.ip())
}

/// The files of the certificate and its key, or an error if one of them is missing.
pub(super) fn certificate_files(settings: &Settings) -> Result<Option<(PathBuf, PathBuf)>, SecurityError> {
    match (&settings.metrics_certificate, &settings.metrics_key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate.clone(), key.clone()))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(SecurityError::Half { one: "metrics-cert-file", other: "metrics-key-file" }),
        (None, Some(_)) => Err(SecurityError::Half { one: "metrics-key-file", other: "metrics-cert-file" }),
    }
}

/// That of the files; without them, tokens are encrypted with one of our own.
#[cfg(feature = "rustls-tls")]
fn certificate(pair: Option<(PathBuf, PathBuf)>, settings: &Settings) -> Result<Option<Certificate>, SecurityError> {
    match pair {
        Some((certificate, key)) => Certificate::load(certificate, key).map(Some).map_err(SecurityError::Certificate),
        None if settings.reviews_tokens() => Ok(Some(Certificate::self_signed()?)),
        None => Ok(None),
    }
}

/// The guard, with a client of its own: handlers that block the program's runtime do
/// not delay reviews.
fn guard(connection: &Connection, audience: Option<String>) -> GuardMaker {
    let make = connection.another.clone();
    Box::new(move || make().map(|client| Guard::new(client, audience)).map_err(std::io::Error::other))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_default_port_of_probes_that_the_metrics_use_is_not_that_of_another_program() {
        let settings = Settings { listen_probes: Some(Listen::Default), ..Settings::default() };
        let main = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback has a free port");
        let taken = main.local_addr();
        let listeners = Listeners::bind_by(&settings, |_| Ok(Some(main)), |_| Listener::bind_probes(taken).map(Some));
        let error = listeners.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(&format!("metrics and probes cannot both be on {taken}: ")), "{error}");
        let at = |address: &str| address.parse::<SocketAddr>().expect("an address");
        assert!(is_included(at("[::]:8081"), at("127.0.0.1:8081")));
        assert!(!is_included(at("127.0.0.2:8081"), at("127.0.0.1:8081")));
        assert!(!is_included(at("[::]:8081"), at("[::]:8080")));
    }
}
