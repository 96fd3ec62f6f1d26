//! A certificate that is made in memory, and renewed long before it expires.

use parking_lot::Mutex;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use kooper_runtime::internal::clock;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The validity of a certificate, and the age at which it is replaced.
const LASTS: Duration = Duration::from_secs(90 * DAY.as_secs());
const RENEWED: Duration = Duration::from_secs(60 * DAY.as_secs());

/// Maximum time that the clock of a client may be behind.
const BEFORE: Duration = DAY;

/// The names in it. Clients that do not verify it do not read them.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate of this process.
pub(super) struct SelfSigned(Mutex<IssuedCertificate>);

struct IssuedCertificate {
    acceptor: TlsAcceptor,
    at: Timestamp,
}

/// Why no certificate can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error("cannot create a certificate for the metrics: {0}")]
    Certificate(rcgen::Error),
    #[error("the certificate that was created for the metrics cannot be used: {0}")]
    Unusable(rustls::Error),
}

impl SelfSigned {
    pub(super) fn new() -> Result<Self, MakeError> {
        Ok(Self(Mutex::new(IssuedCertificate::new(clock::wall())?)))
    }

    /// Returns the TLS acceptor. A certificate that cannot be renewed stays in use.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut made = self.0.lock();
        let now = clock::wall();
        // A clock that was set back made one that is not valid yet.
        let is_due = now.duration_since(made.at).unsigned_abs() >= RENEWED;
        if is_due {
            match IssuedCertificate::new(now) {
                Ok(new) => *made = new,
                Err(error) => {
                    tracing::warn!("{error}; the previous one stays in use for another day");
                    made.at = (now - RENEWED).checked_add(DAY).unwrap_or(now);
                }
            }
        }
        made.acceptor.clone()
    }
}

impl IssuedCertificate {
    fn new(at: Timestamp) -> Result<Self, MakeError> {
        let since_1970 = Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
        let now = date_time_ymd(1970, 1, 1) + since_1970;
        let mut params = CertificateParams::new(NAMES.map(ToOwned::to_owned)).map_err(MakeError::Certificate)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kooper");
        params.not_before = now - BEFORE;
        params.not_after = now + LASTS;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(MakeError::Certificate)?;
        let certificate = params.self_signed(&key).map_err(MakeError::Certificate)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let acceptor = kooper_serving::acceptor(vec![certificate.der().clone()], key).map_err(MakeError::Unusable)?;
        Ok(Self { acceptor, at })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_renewed_a_month_before_it_expires() {
        let made = SelfSigned::new().expect("a certificate");
        let first = made.acceptor();
        tokio::time::advance(RENEWED - DAY).await;
        assert!(Arc::ptr_eq(first.config(), made.acceptor().config()), "it is kept");
        tokio::time::advance(DAY).await;
        let second = made.acceptor();
        assert!(!Arc::ptr_eq(first.config(), second.config()), "it is renewed");
        assert!(Arc::ptr_eq(second.config(), made.acceptor().config()));
    }
}
