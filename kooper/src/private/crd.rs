//! The CRD of a kind, if it derives one.

use std::marker::PhantomData;
use std::ops::Deref;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The function that makes the CRD of a kind, if it has one.
pub type Crd = Option<fn() -> CustomResourceDefinition>;

/// Finds the CRD of a kind: `crd(kind).known_crd()`.
#[must_use]
pub fn crd<K>(kind: PhantomData<K>) -> CrdOf<K> {
    CrdOf { kind, unknown: NoCrd }
}

/// Finds out whether a kind has a CRD. If it has one, `known_crd` is an inherent method;
/// otherwise the method of the type that it dereferences to is called.
#[derive(Debug)]
pub struct CrdOf<K> {
    kind: PhantomData<K>,
    unknown: NoCrd,
}

/// A kind without a known CRD.
#[derive(Debug)]
pub struct NoCrd;

impl<K: CustomResourceExt> CrdOf<K> {
    /// The CRD that the kind derives.
    #[must_use]
    pub fn known_crd(&self) -> Crd {
        let _ = self.kind;
        Some(K::crd)
    }
}

impl<K> Deref for CrdOf<K> {
    type Target = NoCrd;

    fn deref(&self) -> &NoCrd {
        &self.unknown
    }
}

impl NoCrd {
    /// None.
    #[must_use]
    pub fn known_crd(&self) -> Crd {
        None
    }
}
