//! The certificates in use, by their source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kooper_serving::FileCertificate;
use parking_lot::Mutex;

use crate::authority::is_bundle;
use crate::authority::leaf::Leaf;
use crate::authority::rotation::Authorities;
use crate::authority::validity::valid_until;
use crate::server::metrics::Metrics;
use crate::states::States;

/// The time for which a probe counts: an API server that reached the webhooks may lose them later.
const PROBED: Duration = Duration::from_secs(60);

/// Shared by the server and the registration: the certificates in use, and the metrics.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) certificates: Certificates,
    pub(crate) metrics: Metrics,
    pub(crate) states: States,
}

#[derive(Debug)]
pub(crate) enum Certificates {
    /// Those of the own authority, in the Secret of this name, and the authorities that this process has used so far.
    Own { secret: String, leaf: Leaf, known: Mutex<Option<Authorities>> },
    /// Those of files, with the authority in another one.
    Files { certificate: FileCertificate, ca: PathBuf },
    /// Those of files, while another program writes the authority into the configurations.
    Injected { certificate: FileCertificate, from: String },
}

impl Shared {
    pub(crate) fn new(certificates: Certificates, metrics: Metrics) -> Self {
        Self { certificates, metrics, states: States::default() }
    }

    /// Returns whether it is time to find out if the API servers still reach the webhooks.
    pub(crate) fn is_probe_due(&self, now: Timestamp) -> bool {
        self.states.known().probed.is_none_or(|probed| now.duration_since(probed).unsigned_abs() >= PROBED)
    }

    /// An API server has reached the webhooks.
    pub(crate) fn probed(&self, now: Timestamp) {
        self.states.update(|known| known.probed = Some(now));
        self.metrics.probed(now);
    }

    /// The authority in a file, unless that cannot be read or is not PEM.
    pub(crate) fn bundle(&self, file: &Path) -> Option<String> {
        let text = std::fs::read_to_string(file).ok().filter(|text| is_bundle(text))?;
        if let Some(at) = valid_until(&text) {
            self.metrics.expires("authority", at);
        }
        Some(text)
    }

    pub(crate) fn know(&self, authorities: &Authorities) {
        if let Certificates::Own { known, leaf, .. } = &self.certificates {
            *known.lock() = Some(authorities.clone());
            let (authority, serving) = (authorities.current.expires(), leaf.expires());
            self.metrics.expires("authority", authority);
            if let Some(serving) = serving {
                self.metrics.expires("serving", serving);
            }
            self.states.update(|known| {
                known.authority_until = Some(authority);
                known.serving_until = serving;
            });
        }
    }
}
