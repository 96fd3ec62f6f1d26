//! The certificates in use, by their source.

use std::path::PathBuf;

use kooper_serving::FileCertificate;
use parking_lot::Mutex;

use crate::authority::leaf::Leaf;
use crate::authority::rotation::Authorities;

/// The certificates in use, as the server and the registration share them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) certificates: Certificates,
}

#[derive(Debug)]
pub(crate) enum Certificates {
    /// Those of the own authority, in the Secret of this name.
    Own { secret: String, leaf: Leaf, known: Mutex<Option<Authorities>> },
    /// Those of files, with the authority in another one.
    Files { certificate: FileCertificate, ca: PathBuf },
    /// Those of files, while another program writes the authority into the configurations.
    Injected { certificate: FileCertificate, from: String },
}

impl Shared {
    /// The authorities that this process has used so far.
    pub(crate) fn known(&self) -> Option<Authorities> {
        match &self.certificates {
            Certificates::Own { known, .. } => known.lock().clone(),
            Certificates::Files { .. } | Certificates::Injected { .. } => None,
        }
    }

    pub(crate) fn know(&self, authorities: &Authorities) {
        if let Certificates::Own { known, .. } = &self.certificates {
            *known.lock() = Some(authorities.clone());
        }
    }
}
