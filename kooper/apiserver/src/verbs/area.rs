//! The part of an object that a path writes. The rest of the object stays as it is.

use serde_json::{Value, json};

use super::Call;
use crate::time;
use crate::validate::Write;

/// The part of an object that belongs to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
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

impl Area {
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

    /// Whether a write of this part may create the object. That of a Service's status does so, without anything that
    /// the server allocates.
    pub(super) fn creates(self, call: &Call<'_>) -> bool {
        let service = call.kind.is_service();
        self == Self::Whole || service && self == Self::Status
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

    /// Whether `metadata.generation` may count a write of this part.
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
                take(&mut object["status"], &wanted["status"], "conditions");
                date_conditions(&mut object, present);
                object
            }
            Self::Finalize => {
                let mut object = wanted.clone();
                take(&mut object, present, "status");
                if object["spec"]["finalizers"].as_array().is_some_and(Vec::is_empty) {
                    object["spec"] = json!({});
                }
                object
            }
            Self::EphemeralContainers => {
                let mut object = with_owners(present.clone(), wanted);
                take(&mut object["spec"], &wanted["spec"], "ephemeralContainers");
                object
            }
            Self::Resize => resize(wanted, present),
        }
    }
}

/// Takes a member over, or removes it where it is absent.
fn take(object: &mut Value, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => object[key] = value.clone(),
        None => drop(object.as_object_mut().and_then(|entries| entries.remove(key))),
    }
}

fn whole(call: &Call<'_>, wanted: &Value, present: &Value) -> Value {
    let kind = &call.kind;
    let mut object = wanted.clone();
    let keeps_status = match &kind.custom {
        Some(definition) => definition.has_status,
        None => kind.strategy.status,
    };
    if keeps_status {
        take(&mut object, present, "status");
    }
    // A namespace's finalizers have a path of their own; a request for a certificate never changes.
    if kind.custom.is_none() && matches!(kind.kind.as_str(), "Namespace" | "CertificateSigningRequest") {
        take(&mut object, present, "spec");
    }
    object
}

fn status(call: &Call<'_>, wanted: &Value, present: &Value) -> Value {
    let mut object = with_owners(present.clone(), wanted);
    take(&mut object, wanted, "status");
    // The status of a custom object brings no metadata; that of most built-in ones does.
    if call.kind.custom.is_none() && !call.kind.strategy.bare_status {
        object["metadata"] = wanted["metadata"].clone();
        if call.kind.kind == "CertificateSigningRequest" {
            keep_decisions(&mut object, present);
            date_conditions(&mut object, present);
        }
    }
    object
}

/// An object with the owners that another one has.
fn with_owners(mut object: Value, from: &Value) -> Value {
    take(&mut object["metadata"], &from["metadata"], "managedFields");
    object
}

/// Approvals and denials are written through their own path only.
fn keep_decisions(object: &mut Value, present: &Value) {
    for decision in ["Approved", "Denied"] {
        let mut old = conditions(present).filter(|condition| condition["type"] == decision);
        let count = conditions(object).filter(|condition| condition["type"] == decision).count();
        if count != old.clone().count() {
            continue;
        }
        for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if condition["type"] == decision
                && let Some(old) = old.next()
            {
                *condition = old.clone();
            }
        }
    }
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> + Clone {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

/// Conditions of a certificate request without times get those of the present ones, or now.
fn date_conditions(object: &mut Value, present: &Value) {
    let now = json!(time::now());
    for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if !condition["lastUpdateTime"].is_string() {
            condition["lastUpdateTime"] = now.clone();
        }
        if !condition["lastTransitionTime"].is_string() {
            let same = |old: &&Value| old["type"] == condition["type"] && old["status"] == condition["status"];
            let since = conditions(present).find(same).map(|old| old["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since.filter(Value::is_string).unwrap_or_else(|| now.clone());
        }
    }
}

/// The resources of the wanted containers. Added, removed and renamed containers are left to validation.
fn resize(wanted: &Value, present: &Value) -> Value {
    let mut object = with_owners(present.clone(), wanted);
    take(&mut object["spec"], &wanted["spec"], "resources");
    for list in ["containers", "initContainers"] {
        let of = |object: &Value| -> Vec<Value> { object["spec"][list].as_array().cloned().unwrap_or_default() };
        let (old, new) = (of(present), of(wanted));
        if old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| old["name"] != new["name"]) {
            return wanted.clone();
        }
        for (index, container) in new.iter().enumerate() {
            for key in ["resources", "resizePolicy"] {
                take(&mut object["spec"][list][index], container, key);
            }
        }
    }
    object
}
