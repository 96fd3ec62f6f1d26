//! Preparation of objects before they are stored: defaults, status and validation.

use std::borrow::Cow;

use serde_json::Value;

use crate::cause::Cause;
use crate::kinds::{Kind, split_group_version};
use crate::registry::{self, Allocation, Update};
use crate::status::StatusError;
use crate::store::Traits;
use crate::{defaults, meta};

/// Readies a new object.
pub(crate) fn create(kind: &Kind, object: &mut Value, allocation: Allocation) -> Result<(), StatusError> {
    if let Some(definition) = &kind.custom {
        if definition.has_status {
            drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
        }
        return Ok(());
    }
    if kind.flags.status {
        drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
    }
    registry::of(kind).prepare_for_create(kind, object, allocation)
}

/// Makes a valid object what it is when it is read.
pub(crate) fn canonicalize(kind: &Kind, object: &mut Value) {
    match kind.custom {
        Some(_) => crate::schema::whole_numbers(object),
        None => defaults::fill(kind, object),
    }
}

/// Adds what reads show of an object that an update has left out, once it is known to be valid.
pub(crate) fn complete(kind: &Kind, object: &mut Value) {
    registry::of(kind).complete(object);
}

/// Refuses a custom object of another type. Its types and limits are not checked, only its rules. `metadata` is what is
/// wrong about an update of its metadata.
pub(crate) fn check_type(
    kind: &Kind,
    object: &Value,
    present: Option<&Value>,
    metadata: &[Cause],
) -> Result<(), StatusError> {
    let Some(definition) = &kind.custom else { return Ok(()) };
    let mut causes = Vec::new();
    for (key, expected) in [("kind", kind.kind.clone()), ("apiVersion", kind.api_version())] {
        if object[key] != expected.as_str() {
            causes.push(Cause::invalid(key, &object[key], format!("must be {expected}")));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    if present.is_some() {
        causes.extend(meta::validate(kind, object, registry::of(kind).name_form()));
        causes.extend_from_slice(metadata);
    }
    drop(definition.validate_rules(object, present, &mut causes));
    Err(invalid(kind, object, meta::text(object, "name"), &causes))
}

/// The refusal of an object. One of a custom kind has the type that the client has sent.
pub(crate) fn invalid(kind: &Kind, sent: &Value, name: &str, causes: &[Cause]) -> StatusError {
    if kind.custom.is_none() {
        return StatusError::invalid_object(kind, name, causes);
    }
    let text = |key: &str| sent[key].as_str().unwrap_or_default();
    let (group, _) = split_group_version(text("apiVersion"));
    StatusError::invalid(&group, text("kind"), name, causes)
}

/// Returns the kind's warnings: fields without effect, and finalizers of custom objects that are
/// not domain-qualified.
pub(crate) fn warnings(kind: &Kind, object: &Value, present: Option<&Value>) -> Vec<String> {
    if kind.custom.is_none() {
        return registry::of(kind).warnings(object, present);
    }
    let known = present.map(meta::finalizers).unwrap_or_default();
    let mut added: Vec<_> = meta::finalizers(object).into_iter().filter(|name| !known.contains(name)).collect();
    added.sort_unstable();
    added.dedup();
    let foreign = added.into_iter().filter(|name| !name.contains('/') && !meta::STANDARD_FINALIZERS.contains(name));
    let warning = |name: &str| {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers"
        )
    };
    foreign.map(warning).collect()
}

/// The state of an object with what is stored, but not read.
pub(crate) fn with_hidden_value(kind: &Kind, mut shown: Value, stored: &Traits) -> Value {
    if let Some(hidden) = &stored.hidden {
        registry::of(kind).reveal(&mut shown, hidden);
    }
    shown
}

/// The state of an object as it is read.
pub(crate) fn shown<'a>(kind: &Kind, object: &'a Value) -> Cow<'a, Value> {
    let strategy = registry::of(kind);
    if strategy.hidden(object).is_none() {
        return Cow::Borrowed(object);
    }
    let mut shown = object.clone();
    strategy.hide(&mut shown);
    Cow::Owned(shown)
}

/// Readies the next state of an object.
pub(crate) fn update(kind: &Kind, object: &mut Value, update: Update<'_>) -> Result<(), StatusError> {
    if kind.custom.is_some() {
        return Ok(());
    }
    registry::of(kind).prepare_for_update(kind, object, update)?;
    defaults::fill(kind, object);
    Ok(())
}
