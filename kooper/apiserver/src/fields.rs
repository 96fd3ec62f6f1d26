//! Field managers: who owns which fields, kept over writes and applied.

use std::sync::{Arc, LazyLock};

use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::defaults;
use crate::kinds::Kind;
use crate::patch::apply::ApplyError;
use crate::patch::field_manager::FieldManager;
use crate::patch::fields::FieldSet;
use crate::patch::path::{Path, PathElement};
use crate::patch::reset::Reset;
use crate::patch::scale::{self, ReplicasPaths, SCALE_VERSION};
use crate::patch::schema::Schema;
use crate::patch::versions::{OneVersion, Versions};
use crate::patch::{managed, noop, zero};
use crate::schema::Typed;
use crate::status::StatusError;
use crate::{registry, time};

/// All versions in which a kind is served.
struct ServedVersions(Vec<(String, Arc<Kind>)>);

impl ServedVersions {
    fn kind(&self, api_version: &str) -> Option<&Arc<Kind>> {
        self.0.iter().find(|(version, _)| version == api_version).map(|(_, kind)| kind)
    }
}

impl Versions for ServedVersions {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.kind(api_version).map(|kind| &kind.typed().schema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let mut converted = object.clone();
        let from = object["apiVersion"].as_str().unwrap_or_default();
        if let Some((_, conversion)) = self.kind(from).and_then(|kind| kind.stored.as_ref()) {
            conversion.store(&mut converted);
        }
        if let Some((_, conversion)) = self.kind(api_version).and_then(|kind| kind.stored.as_ref()) {
            conversion.serve(&mut converted);
        }
        converted["apiVersion"] = api_version.into();
        converted
    }
}

/// Runs `then` with the field manager of writes to a kind, or to a subresource of it.
fn with<T>(cluster: &Cluster, kind: &Kind, subresource: &str, then: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let kinds = cluster.kinds();
    let same = kinds.iter().filter(|other| Arc::ptr_eq(&other.table, &kind.table));
    let versions = ServedVersions(same.map(|kind| (kind.api_version(), Arc::clone(kind))).collect());
    let reset = reset(kind, subresource);
    let api_version = kind.api_version();
    let zero = defaults::zero(kind.typed().name, &api_version, &kind.kind);
    then(&FieldManager {
        api_version: &api_version,
        kind: &kind.kind,
        subresource,
        versions: &versions,
        reset: &reset,
        zero: &zero,
    })
}

/// Returns the fields that a write through this subresource cannot change.
fn reset(kind: &Kind, subresource: &str) -> Reset {
    let has_status = kind.custom.as_ref().map_or(kind.flags.status, |definition| definition.has_status);
    let paths: &[&[&str]] = match (subresource, registry::of(kind).reset(subresource)) {
        ("", _) if has_status => &[&["status"]],
        ("", _) => &[],
        (_, Some(registry::Reset::Fields(paths))) => paths,
        (_, Some(registry::Reset::AllBut(paths))) => {
            return Reset::AllBut(paths.iter().map(|path| steps(path)).collect());
        }
        ("status", None) if kind.custom.is_some() || kind.flags.bare_status => &[&["metadata"], &["spec"]],
        ("status", None) => &[&["spec"]],
        _ => &[],
    };
    let paths: Vec<_> = paths.iter().map(|names| Path::of_fields(names)).collect();
    Reset::Fields(paths.iter().collect::<FieldSet>())
}

/// A path of fields; `*` is any item.
fn steps(names: &[&str]) -> Vec<Option<PathElement>> {
    names.iter().map(|name| (*name != "*").then(|| PathElement::field(name))).collect()
}

/// A new object with its `managedFields`.
pub(crate) fn created(cluster: &Cluster, kind: &Kind, subresource: &str, object: Value, writer: &str) -> Value {
    with(cluster, kind, subresource, |fields| fields.update(fields.zero, object, writer, &time::now()))
}

/// The object of a POST to a subresource, which is of a type of its own, with its `managedFields`.
///
/// `zero` is an object of the type without any field.
pub(crate) fn posted(
    (group, version, kind): (&str, &str, &str),
    subresource: &str,
    zero: &Value,
    object: Value,
    writer: &str,
) -> Value {
    let typed = Typed::builtin(group, version, kind);
    let api_version = format!("{group}/{version}");
    let versions = OneVersion { api_version: api_version.clone(), schema: typed.schema };
    let (api_version, reset) = (api_version.as_str(), &Reset::NOTHING);
    let manager = FieldManager { api_version, kind, subresource, versions: &versions, reset, zero };
    let mut object = manager.update(zero, object, writer, &time::now());
    drop_empty(&mut object);
    object
}

/// The next state of an object as a client has sent it, with its `managedFields`: none if a patch has changed the type
/// of a custom object to one that is not served.
pub(crate) fn tracked(
    cluster: &Cluster,
    kind: &Kind,
    subresource: &str,
    present: &Value,
    mut object: Value,
    writer: &str,
) -> Value {
    with(cluster, kind, subresource, |fields| {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let is_served = object["kind"] == kind.kind.as_str() && fields.versions.schema(version).is_some();
        if kind.custom.is_some() && !is_served {
            managed::set(&mut object, Vec::new());
            return object;
        }
        fields.update(present, object, writer, &time::now())
    })
}

/// The next state of an object as it is stored, with its `managedFields`.
pub(crate) fn updated(
    cluster: &Cluster,
    kind: &Kind,
    subresource: &str,
    present: &Value,
    object: Value,
    writer: &str,
) -> Value {
    let mut object = tracked(cluster, kind, subresource, present, object, writer);
    settle(&mut object, present);
    object
}

/// Leaves out empty tracking, and keeps the times of a write that changes nothing.
pub(crate) fn settle(object: &mut Value, present: &Value) {
    noop::keep_times(object, present);
    drop_empty(object);
}

/// `managedFields` without entries are no field.
pub(crate) fn drop_empty(object: &mut Value) {
    if managed::of(object).as_array().is_some_and(Vec::is_empty) {
        crate::meta::of(object).remove("managedFields");
    }
}

/// The present object, if there is one, with a configuration applied to it.
pub(crate) fn applied(
    cluster: &Cluster,
    kind: &Kind,
    subresource: &str,
    present: Option<&Value>,
    config: &Value,
    writer: &str,
    force: bool,
) -> Result<Value, StatusError> {
    let result = with(cluster, kind, subresource, |fields| {
        fields.apply(present.unwrap_or(fields.zero), config, writer, force, &time::now())
    });
    let mut object = result.map_err(|error| refusal(&error))?;
    // Here an empty list of a custom object is not the same as none, and what has a default is not missing.
    if let (Some(present), Some(definition)) = (present, &kind.custom) {
        let mut complete = object.clone();
        definition.fill_defaults(&mut complete);
        noop::keep_times(&mut complete, present);
        managed::set(&mut object, managed::of(&complete).as_array().cloned().unwrap_or_default());
    }
    Ok(object)
}

/// Write of a Scale.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScaleWrite<'a> {
    /// This is the Scale from now on.
    Replaced(&'a Value),
    /// This is applied to the Scale; `force` takes fields from other owners.
    Applied { config: &'a Value, force: bool },
}

/// The Scale of an object with the owners of what it shows.
pub(crate) fn scale(cluster: &Cluster, kind: &Kind, object: &Value, scale: &Value) -> Result<Value, StatusError> {
    let mut owned = scale.clone();
    let owners =
        scale::to_scale(managed::of(object), &replicas_paths(cluster, kind)).map_err(|why| unreadable(&why))?;
    managed::set(&mut owned, owners);
    Ok(owned)
}

/// Where the versions of a kind have their replicas.
fn replicas_paths(cluster: &Cluster, kind: &Kind) -> ReplicasPaths {
    let kinds = cluster.kinds();
    let same = kinds.iter().filter(|other| Arc::ptr_eq(&other.table, &kind.table));
    same.map(|kind| (kind.api_version(), replicas_path(kind))).collect()
}

fn unreadable(why: &str) -> StatusError {
    StatusError::internal(format!("Internal error occurred: {why}"))
}

/// Writes to the scale of an object: the Scale that results, and the `managedFields` of the object.
pub(crate) fn scaled(
    cluster: &Cluster,
    kind: &Kind,
    object: &Value,
    scale: &Value,
    write: ScaleWrite<'_>,
    writer: &str,
) -> Result<(Value, Vec<Value>), StatusError> {
    let paths = replicas_paths(cluster, kind);
    let live = self::scale(cluster, kind, object, scale)?;
    let (typed, zero) = &*SCALE;
    let versions = OneVersion { api_version: SCALE_VERSION.to_owned(), schema: typed.schema.clone() };
    let manager = FieldManager {
        api_version: SCALE_VERSION,
        kind: "Scale",
        subresource: "scale",
        versions: &versions,
        reset: &Reset::NOTHING,
        zero,
    };
    let now = time::now();
    let next = match write {
        ScaleWrite::Applied { config, force } => {
            manager.apply(&live, config, writer, force, &now).map_err(|error| refusal(&error))?
        }
        ScaleWrite::Replaced(next) => {
            let mut next = next.clone();
            // No replicas are encoded as no field.
            if let Some(spec) = next.get_mut("spec").and_then(Value::as_object_mut) {
                spec.retain(|name, value| name != "replicas" || *value != 0);
            }
            managed::set(&mut next, managed::of(&live).as_array().cloned().unwrap_or_default());
            manager.update(&live, next, writer, &now)
        }
    };
    let owners = scale::to_scaled(managed::of(object), managed::of(&next), &kind.api_version(), &paths);
    owners.map(|owners| (next, owners)).map_err(|why| unreadable(&why))
}

/// The schema of a Scale, and a Scale without any field.
static SCALE: LazyLock<(Typed, Value)> = LazyLock::new(|| {
    let typed = Typed::builtin("autoscaling", "v1", "Scale");
    let zero = zero::zero(&typed.schema, SCALE_VERSION, "Scale");
    (typed, zero)
});

/// Where objects of a kind have their replicas, if they can be scaled.
fn replicas_path(kind: &Kind) -> Option<Path> {
    let specified = match &kind.custom {
        Some(definition) => definition.scale.as_ref()?.specified.as_str(),
        None => ".spec.replicas",
    };
    Some(Path::of_fields(&specified.split('.').filter(|part| !part.is_empty()).collect::<Vec<_>>()))
}

fn refusal(error: &ApplyError) -> StatusError {
    let message = error.to_string();
    match error {
        ApplyError::BadRequest(_) => StatusError::bad_request(message),
        ApplyError::Mismatch(_) => StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message),
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts.iter().map(|conflict| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": conflict.message(),
                    "field": conflict.path.to_string()
                })
            });
            let about = json!({"causes": causes.collect::<Value>()});
            StatusError::new(StatusCode::CONFLICT, "Conflict", message).with_details(about)
        }
    }
}
