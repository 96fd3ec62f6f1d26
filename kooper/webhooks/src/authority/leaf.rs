//! The certificate of this replica: signed in memory, and never stored.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;

use super::{Authority, AuthorityError, LEAF, is_early};

/// The age at which it is replaced.
const RENEWED: Duration = Duration::from_secs(LEAF.as_secs() / 3 * 2);

/// The certificate of this replica, which is replaced while the server runs.
pub(crate) struct Leaf {
    /// The names by which API servers call this replica.
    names: Vec<String>,
    signed: Mutex<Option<Signed>>,
}

struct Signed {
    acceptor: TlsAcceptor,
    by: Authority,
    at: Timestamp,
}

impl Leaf {
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self { names, signed: Mutex::new(None) }
    }

    /// Returns the TLS acceptor, or `None` as long as nothing was signed.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.signed.lock().as_ref().map(|signed| signed.acceptor.clone())
    }

    /// Returns until when the certificate is valid, or `None` as long as nothing was signed.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.signed.lock().as_ref().and_then(|signed| signed.at.checked_add(LEAF).ok())
    }

    /// Signs a new certificate if this is another authority, two thirds of the certificate's
    /// time are over, or it is not valid yet.
    pub(crate) fn renew(&self, by: &Authority, now: Timestamp) -> Result<(), AuthorityError> {
        let is_current = |signed: &Signed| {
            let age = now.duration_since(signed.at).unsigned_abs();
            signed.by == *by && age < RENEWED && !is_early(signed.at, now)
        };
        if self.signed.lock().as_ref().is_some_and(is_current) {
            return Ok(());
        }
        let (certificate, key) = by.sign(&self.names, now)?;
        let acceptor = kooper_serving::acceptor(vec![certificate], key).map_err(AuthorityError::Unusable)?;
        *self.signed.lock() = Some(Signed { acceptor, by: by.clone(), at: now });
        Ok(())
    }
}

kooper_runtime::internal::debug_fields! { Leaf { names } }
