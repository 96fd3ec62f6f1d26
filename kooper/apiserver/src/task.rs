//! The pieces of work that follow from writes.

use serde_json::Value;

use crate::kinds::Kind;
use crate::{meta, route};

/// The ConfigMap in which pods find the certificate authority.
pub(crate) const AUTHORITY: &str = "kube-root-ca.crt";
/// The Service by which pods find the server, and its endpoints.
pub(crate) const SERVICE: &str = "kubernetes";

/// Where an object is, in whichever version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) key: String,
}

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Task {
    /// A definition was written.
    Establish(String),
    CleanUpDefinition(String),
    /// A definition is gone.
    DropDefinition(String),
    Namespace(String),
    /// A namespace may lack its service account, or the certificate authority.
    Provision(String),
    /// The Service by which pods find the server may be absent.
    Publish,
    /// A Service is gone, and its Endpoints go with it: its namespace and name.
    Endpoints(String, String),
    /// The quota usage of a namespace may have decreased, or a quota has changed.
    Quotas(String),
    /// A claim of this namespace was marked, or a pod has ended.
    Claims(String),
    Volume(String),
    /// An object is marked and waits for its dependents.
    Owner(Place),
    /// A dependent that held its owner back does so no more: its reference to the owner, and its namespace.
    Released(Value, String),
    /// An owner is gone: its uid, and its namespace.
    Orphans(String, String),
    /// An object whose owners may all be absent.
    Dependent(Place),
}

impl Place {
    pub(crate) fn of(kind: &Kind, key: String) -> Self {
        Self { group: kind.group.clone(), resource: kind.resource.clone(), key }
    }

    pub(crate) fn of_object(kind: &Kind, object: &Value) -> Self {
        Self::of(kind, route::key(meta::text(object, "namespace"), meta::text(object, "name")))
    }
}
