//! The certificate authority of a program's webhooks, and the certificates that it signs.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

pub(crate) mod leaf;
pub(crate) mod rotation;
pub(crate) mod secret;
pub(crate) mod validity;

use validity::valid_until;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The validity of an authority, and of a certificate that it signed.
pub(crate) const AUTHORITY: Duration = Duration::from_secs(365 * DAY.as_secs());
pub(crate) const LEAF: Duration = Duration::from_secs(7 * DAY.as_secs());

/// Maximum time that the clock of an API server may be behind.
const BEFORE: Duration = DAY;

/// Why no certificate can be made, or one cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityError {
    #[error("the certificate of the webhooks cannot be created: {0}")]
    Make(rcgen::Error),
    #[error("the new certificate of the webhooks cannot be used: {0}")]
    Unusable(tokio_rustls::rustls::Error),
    #[error("`ca.crt` is not a certificate authority in PEM with its key")]
    Malformed,
}

/// A certificate authority with its key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// In PEM.
    pub(crate) certificate: String,
    /// PKCS #8 in PEM.
    key: String,
    pub(crate) made: Timestamp,
}

impl Authority {
    pub(crate) fn new(now: Timestamp) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let mut params = params();
        valid(&mut params, now, AUTHORITY);
        let certificate = params.self_signed(&key).map_err(AuthorityError::Make)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem(), made: now })
    }

    /// Reads a certificate and a key, and checks that they belong together.
    pub(crate) fn parse(certificate: &str, key: &str, made: Timestamp) -> Result<Self, AuthorityError> {
        let pair = KeyPair::from_pem(key).map_err(|_| AuthorityError::Malformed)?;
        let public = pair.public_key_raw();
        let der = one_certificate(certificate).ok_or(AuthorityError::Malformed)?;
        // A certificate holds its public key as it is.
        if !der.windows(public.len()).any(|part| part == public) {
            return Err(AuthorityError::Malformed);
        }
        let authority = Self { certificate: certificate.to_owned(), key: key.to_owned(), made };
        // One that was written by hand may have another name, or end earlier.
        let lasts = valid_until(certificate).is_some_and(|end| end.as_second() >= authority.expires().as_second());
        if lasts && authority.is_trusted(certificate, made, made) {
            Ok(authority)
        } else {
            Err(AuthorityError::Malformed)
        }
    }

    /// Returns `true` if a client that trusts a bundle accepts at a time what this authority signs.
    fn is_trusted(&self, bundle: &str, signed: Timestamp, now: Timestamp) -> bool {
        let trusted = || {
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
                roots.add(root.ok()?).ok()?;
            }
            let provider = Arc::new(kooper_serving::provider());
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
            let (leaf, _) = self.sign(&["webhooks.invalid".to_owned()], signed).ok()?;
            let name = ServerName::try_from("webhooks.invalid").ok()?;
            let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().ok()?));
            verifier.verify_server_cert(&leaf, &[], &name, &[], now).ok()
        };
        trusted().is_some()
    }

    /// The age of the authority. A clock that was set back made one of the future.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        now.duration_since(self.made).unsigned_abs()
    }

    /// Until when it is valid.
    pub(crate) fn expires(&self) -> Timestamp {
        self.made.checked_add(AUTHORITY).unwrap_or(self.made)
    }

    /// Signs a certificate for these names.
    fn sign(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), AuthorityError> {
        let signed = || -> Result<_, rcgen::Error> {
            let issuer = Issuer::new(params(), KeyPair::from_pem(&self.key)?);
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name = named("kooper-webhooks");
            valid(&mut params, now, LEAF);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &issuer)?;
            Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
        };
        signed().map_err(AuthorityError::Make)
    }
}

impl std::fmt::Debug for Authority {
    /// Shows no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("made", &self.made).finish_non_exhaustive()
    }
}

/// The same for every authority: the key makes the difference.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("kooper-webhooks-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// Returns `true` while a certificate is not valid yet: the clock by which it was made was ahead.
fn is_early(made: Timestamp, now: Timestamp) -> bool {
    now.checked_add(BEFORE).is_ok_and(|latest| latest < made)
}

/// Sets how long a certificate is valid.
fn valid(params: &mut CertificateParams, from: Timestamp, lasts: Duration) {
    let since_1970 = Duration::from_secs(u64::try_from(from.as_second()).unwrap_or_default());
    let from = date_time_ymd(1970, 1, 1) + since_1970;
    params.not_before = from - BEFORE;
    params.not_after = from + lasts;
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// The certificate of a text in PEM, if it has exactly one and can be trusted by a client.
fn one_certificate(text: &str) -> Option<CertificateDer<'static>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().ok()?;
    let [one] = all.try_into().ok()?;
    RootCertStore::empty().add(one.clone()).ok()?;
    Some(one)
}

/// Returns whether a bundle can be published: API servers would fail each request for one
/// that is malformed.
pub(crate) fn is_bundle(text: &str) -> bool {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let mut roots = RootCertStore::empty();
    all.is_ok_and(|all| !all.is_empty() && all.into_iter().all(|one| roots.add(one).is_ok()))
}

#[cfg(test)]
mod tests;
