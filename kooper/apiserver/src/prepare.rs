//! What a kind does to its objects before they are stored: defaults, status, validation.

mod pod;
mod service;
mod warnings;
mod workload;

use std::borrow::Cow;

use serde_json::{Value, json};

pub(crate) use self::service::first_address;
pub(crate) use self::workload::drop_template_generation;
use crate::cause::Cause;
use crate::kinds::{Kind, split_group_version};
use crate::status::Refusal;
use crate::store::Traits;
use crate::validate::Write;
use crate::{defaults, meta, time};

/// What becomes of the addresses and ports of nodes that a new object needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    Made,
    /// By a dry run, which may have what others have.
    Tried,
    /// It gets none.
    None,
}

/// Readies a new object.
pub(crate) fn create(kind: &Kind, object: &mut Value, allocation: Allocation) -> Result<(), Refusal> {
    if let Some(definition) = &kind.custom {
        if definition.has_status {
            drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
        }
        return Ok(());
    }
    if kind.strategy.status {
        drop(object.as_object_mut().and_then(|entries| entries.remove("status")));
    }
    match kind.kind.as_str() {
        "Namespace" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            name_label(object);
        }
        "Pod" => pod::create(object),
        "Service" if allocation != Allocation::None => {
            service::allocate(kind, object, None, allocation == Allocation::Tried)?;
        }
        "Job" => workload::create_job(object),
        "DaemonSet" => workload::daemon_set(object, None),
        "PersistentVolume" => object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": time::now()}),
        "CustomResourceDefinition" => crate::crd::prepare(object, None),
        _ => {}
    }
    Ok(())
}

/// Makes a valid object what it is when it is read.
pub(crate) fn store(kind: &Kind, object: &mut Value) {
    match kind.custom {
        Some(_) => crate::schema::whole_numbers(object),
        None => defaults::fill(kind, object),
    }
}

/// Adds what reads show of an object that an update has left out, once it is known to be valid.
pub(crate) fn complete(kind: &Kind, object: &mut Value) {
    if kind.is_service() {
        service::pair_addresses(object, None);
    }
}

/// Refuses a custom object of another type. Its types and limits are not checked, only its rules. `metadata` is what is
/// wrong about an update of its metadata.
pub(crate) fn check_type(
    kind: &Kind,
    object: &Value,
    present: Option<&Value>,
    metadata: &[Cause],
) -> Result<(), Refusal> {
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
        causes.extend(meta::validate(kind, object));
        causes.extend_from_slice(metadata);
    }
    definition.validate_rules(object, present, &mut causes);
    Err(invalid(kind, object, meta::text(object, "name"), &causes))
}

/// The refusal of an object. One of a custom kind has the type that the client has sent.
pub(crate) fn invalid(kind: &Kind, sent: &Value, name: &str, causes: &[Cause]) -> Refusal {
    if kind.custom.is_none() {
        return Refusal::invalid_object(kind, name, causes);
    }
    let text = |key: &str| sent[key].as_str().unwrap_or_default();
    let (group, _) = split_group_version(text("apiVersion"));
    Refusal::invalid(&group, text("kind"), name, causes)
}

/// What the kind warns of: fields without effect, and finalizers of custom objects that may be those of others.
pub(crate) fn warnings(kind: &Kind, object: &Value, present: Option<&Value>) -> Vec<String> {
    if kind.custom.is_none() {
        return if kind.is_service() { service::warnings(object) } else { warnings::of_pods(kind, object, present) };
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
pub(crate) fn revealed(mut shown: Value, stored: &Traits) -> Value {
    if let Some(policy) = &stored.hidden {
        shown["spec"]["internalTrafficPolicy"] = json!(policy);
    }
    shown
}

/// The state of an object as it is read.
pub(crate) fn shown<'a>(kind: &Kind, object: &'a Value) -> Cow<'a, Value> {
    if kind.hidden(object).is_none() {
        return Cow::Borrowed(object);
    }
    let mut shown = object.clone();
    if let Value::Object(spec) = &mut shown["spec"] {
        spec.remove("internalTrafficPolicy");
    }
    Cow::Owned(shown)
}

/// Readies the next state of an object.
pub(crate) fn update(
    kind: &Kind,
    object: &mut Value,
    present: &Value,
    status: bool,
    dry_run: bool,
) -> Result<(), Refusal> {
    if kind.custom.is_some() {
        return Ok(());
    }
    match kind.kind.as_str() {
        "Namespace" => {
            name_label(object);
        }
        "Pod" if status => pod::update_status(object, present),
        "Deployment" if status => match present["metadata"].get("labels") {
            Some(labels) => drop(meta::of(object).insert("labels".into(), labels.clone())),
            None => drop(meta::of(object).remove("labels")),
        },
        "Service" if status && service::lacks_modes(object) => {
            // Where a point takes traffic has no default here, unless the client says that it is a load balancer.
            let causes = validate(kind, object, Write::Status(present));
            return Err(Refusal::invalid_object(kind, meta::text(object, "name"), &causes));
        }
        "Service" if !status => service::allocate(kind, object, Some(present), dry_run)?,
        "DaemonSet" => workload::daemon_set(object, Some(present)),
        "CustomResourceDefinition" if !status => crate::crd::prepare(object, Some(present)),
        _ => {}
    }
    defaults::fill(kind, object);
    Ok(())
}

/// A namespace has its name as a label.
fn name_label(namespace: &mut Value) {
    let name = meta::text(namespace, "name").to_owned();
    let labels = meta::of(namespace).entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = json!(name);
}

/// The rules that an object violates.
pub(crate) fn validate(kind: &Kind, object: &Value, write: Write<'_>) -> Vec<Cause> {
    let mut causes = meta::validate(kind, object);
    match &kind.custom {
        Some(definition) => {
            let status = matches!(write, Write::Status(_));
            causes.extend(definition.validate(object, write.present(), status));
        }
        None => causes.extend(crate::validate::validate(kind, object, write)),
    }
    causes
}
