//! The certificate of a TLS listener: from files, or made and renewed in memory.

mod self_signed;

use std::path::PathBuf;

use tokio_rustls::TlsAcceptor;

pub(crate) use kooper_serving::CertificateError;
use kooper_serving::FileCertificate;
pub(crate) use self_signed::MakeError;
use self_signed::SelfSigned;

/// A certificate and its key, which may be replaced while the listener runs.
pub(crate) struct Certificate(Origin);

enum Origin {
    Files(FileCertificate),
    Memory(SelfSigned),
}

impl Certificate {
    /// That of two files in PEM, which are read again when they change.
    pub(crate) fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        Ok(Self(Origin::Files(FileCertificate::load("the metrics", certificate, key)?)))
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
