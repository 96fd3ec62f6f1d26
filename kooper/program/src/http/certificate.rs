//! The certificate of a TLS listener: from files, or made and renewed in memory.

mod files;
mod self_signed;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

pub(crate) use files::CertificateError;
use files::FromFiles;
pub(crate) use self_signed::MakeError;
use self_signed::SelfSigned;

/// A certificate and its key, which may be replaced while the listener runs.
pub(crate) struct Certificate(Origin);

enum Origin {
    Files(FromFiles),
    Memory(SelfSigned),
}

impl Certificate {
    /// That of two files in PEM, which are read again when they change.
    pub(crate) fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        Ok(Self(Origin::Files(FromFiles::load(certificate, key)?)))
    }

    /// A self-signed certificate. A client can encrypt with it, but cannot verify the
    /// server.
    pub(crate) fn self_signed() -> Result<Self, MakeError> {
        Ok(Self(Origin::Memory(SelfSigned::new()?)))
    }

    /// Returns the TLS acceptor of the newest usable certificate.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        match &self.0 {
            Origin::Files(files) => files.acceptor(),
            Origin::Memory(made) => made.acceptor(),
        }
    }
}

/// Makes a TLS acceptor for HTTP/1.1.
fn acceptor(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

// Named, as a program that has both libraries has no default.
#[cfg(feature = "ring")]
fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

#[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
