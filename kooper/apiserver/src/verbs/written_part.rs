//! The part of an object that a path writes. The rest of the object stays as it is.

use serde_json::{Value, json};

use super::Call;
use crate::registry::{self, keep};
use crate::validate::Write;

/// The part of an object that belongs to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenPart {
    /// Everything, except for a status that has a path of its own.
    Whole,
    Status,
    /// `certificatesigningrequests/approval`: the conditions of the status.
    Approval,
    /// `namespaces/finalize`: the finalizers in the spec.
    Finalize,
    /// `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// `pods/resize`: the resources of containers.
    Resize,
}

impl WrittenPart {
    pub(super) fn of(call: &Call<'_>) -> Self {
        match call.target.subresource.as_deref() {
            Some("status") => Self::Status,
            Some("approval") => Self::Approval,
            Some("finalize") => Self::Finalize,
            Some("ephemeralcontainers") => Self::EphemeralContainers,
            Some("resize") => Self::Resize,
            // The scale of an object is written as a part of the object.
            _ => Self::Whole,
        }
    }

    /// Returns whether a write of this part may create the object. A write of the status can create
    /// a Service, but nothing is allocated for it then.
    pub(super) fn creates(self, call: &Call<'_>) -> bool {
        self == Self::Whole || self == Self::Status && registry::of(&call.kind).is_created_by_status()
    }

    /// The write that validation judges.
    pub(super) fn judged(self, present: &Value) -> Write<'_> {
        match self {
            Self::Whole => Write::Update(present),
            Self::Status | Self::Approval | Self::Finalize => Write::Status(present),
            Self::EphemeralContainers => Write::EphemeralContainers(present),
            Self::Resize => Write::Resize(present),
        }
    }

    /// Returns whether a write of this part can increment `metadata.generation`.
    pub(super) fn is_counted(self) -> bool {
        !matches!(self, Self::Status | Self::Approval | Self::Finalize)
    }

    pub(super) fn is_status(self) -> bool {
        matches!(self, Self::Status | Self::Approval)
    }

    /// The present object with this part of the wanted one.
    pub(super) fn merge(self, call: &Call<'_>, wanted: &Value, present: &Value) -> Value {
        match self {
            Self::Whole => whole(call, wanted, present),
            Self::Status => status(call, wanted, present),
            Self::Approval => {
                let mut object = present.clone();
                object["metadata"] = wanted["metadata"].clone();
                keep(&mut object["status"], &wanted["status"], "conditions");
                registry::of(&call.kind).merge_status(&mut object, present, "approval");
                object
            }
            Self::Finalize => {
                let mut object = wanted.clone();
                keep(&mut object, present, "status");
                if object["spec"]["finalizers"].as_array().is_some_and(Vec::is_empty) {
                    object["spec"] = json!({});
                }
                object
            }
            Self::EphemeralContainers => {
                let mut object = with_owners(present.clone(), wanted);
                keep(&mut object["spec"], &wanted["spec"], "ephemeralContainers");
                object
            }
            Self::Resize => resize(wanted, present),
        }
    }
}

fn whole(call: &Call<'_>, wanted: &Value, present: &Value) -> Value {
    let kind = &call.kind;
    let mut object = wanted.clone();
    let keeps_status = match &kind.custom {
        Some(definition) => definition.has_status,
        None => kind.flags.status,
    };
    if keeps_status {
        keep(&mut object, present, "status");
    }
    // A namespace's finalizers have a path of their own; a request for a certificate never changes.
    if registry::of(kind).keeps_spec() {
        keep(&mut object, present, "spec");
    }
    object
}

fn status(call: &Call<'_>, wanted: &Value, present: &Value) -> Value {
    let mut object = with_owners(present.clone(), wanted);
    keep(&mut object, wanted, "status");
    // The status of a custom object brings no metadata; that of most built-in ones does.
    if call.kind.custom.is_none() && !call.kind.flags.bare_status {
        object["metadata"] = wanted["metadata"].clone();
        registry::of(&call.kind).merge_status(&mut object, present, "status");
    }
    object
}

/// An object with the owners that another one has.
fn with_owners(mut object: Value, from: &Value) -> Value {
    keep(&mut object["metadata"], &from["metadata"], "managedFields");
    object
}

/// The resources of the wanted containers. Added, removed and renamed containers are left to validation.
fn resize(wanted: &Value, present: &Value) -> Value {
    let mut object = with_owners(present.clone(), wanted);
    keep(&mut object["spec"], &wanted["spec"], "resources");
    for list in ["containers", "initContainers"] {
        let of = |object: &Value| -> Vec<Value> { object["spec"][list].as_array().cloned().unwrap_or_default() };
        let (old, new) = (of(present), of(wanted));
        if old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| old["name"] != new["name"]) {
            return wanted.clone();
        }
        for (index, container) in new.iter().enumerate() {
            for key in ["resources", "resizePolicy"] {
                keep(&mut object["spec"][list][index], container, key);
            }
        }
    }
    object
}
