//! TLS for HTTP/1.1.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::limits::Running;

/// Minimum time that a handshake counts for its source.
const PACE: Duration = Duration::from_millis(250);

/// Makes a TLS acceptor for HTTP/1.1.
///
/// # Errors
/// When the key is not that of the certificate, or of a kind that is not supported.
pub fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Makes a TLS handshake, which counts for its source until it has ended, and for at
/// least a quarter of a second.
///
/// # Errors
/// When the client does not complete it.
pub async fn handshake(acceptor: TlsAcceptor, running: Running, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let running = Arc::new(running);
    let paced = Arc::clone(&running);
    tokio::spawn(async move {
        tokio::time::sleep(PACE).await;
        drop(paced);
    });
    let accepted = acceptor.accept(stream).await;
    drop(running);
    accepted
}

/// The library that TLS is made with. It is named, as a program that has both has no default.
#[cfg(feature = "ring")]
#[must_use]
pub fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// The library that TLS is made with. It is named, as a program that has both has no default.
#[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
#[must_use]
pub fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
