//! Compares a patch with what the real server made of it.
//!
//! Defaults, admission and the fields that the server sets are not the
//! patch's: each step starts from the object that the real server answered,
//! and where a write isn't an apply, owners are found by the real result.

mod outcome;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use kooper_apiserver::patch::field_manager::FieldManager;
use kooper_apiserver::patch::fields::FieldSet;
use kooper_apiserver::patch::merge::merge_patch;
use kooper_apiserver::patch::noop::keep_times;
use kooper_apiserver::patch::path::Path as FieldPath;
use kooper_apiserver::patch::reset::Reset;
use kooper_apiserver::patch::schema::{Schema, Types};
use kooper_apiserver::patch::strategic::strategic_merge;
use kooper_apiserver::patch::user_agent::manager_name;
use kooper_apiserver::patch::versions::OneVersion;
use kooper_apiserver::patch::zero::{empty, zero};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use outcome::{different_failure, different_fields, failure, is_later};

/// Requests about one object, in order.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    /// The name of the object.
    pub(crate) name: String,
    /// Its kind.
    pub(crate) kind: String,
    /// Its version.
    pub(crate) api_version: String,
    /// The requests.
    pub(crate) steps: Vec<Step>,
}

/// A request and the real server's answer to it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Step {
    /// `create`, `update`, `merge`, `strategic` or `apply`.
    pub(crate) verb: String,
    /// The field manager.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) manager: String,
    /// The User-Agent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) agent: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) subresource: String,
    /// `true` if the apply is forced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) force: bool,
    /// The object or the patch; for an update, how the stored object is edited.
    pub(crate) body: Value,
    /// The status code of the answer.
    pub(crate) code: u16,
    /// The answer: an object or a Status.
    pub(crate) answer: Value,
}

/// The recorded files, by theme.
pub(crate) fn files() -> Vec<PathBuf> {
    // This file is compiled by two crates.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inside = here.join("patches/histories");
    let folder = if inside.is_dir() { inside } else { here.join("../kooper/apiserver/tests/patches/histories") };
    let entries = std::fs::read_dir(folder).expect("there are histories");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.sort();
    files
}

/// The histories of a file.
pub(crate) fn histories(file: &Path) -> Vec<History> {
    let text = std::fs::read_to_string(file).expect("the file can be read");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The schema of the custom resource that histories use.
pub(crate) fn widget() -> Value {
    serde_json::from_str(include_str!("widget.json")).expect("the CRD is JSON")
}

fn schema(kind: &str) -> Schema {
    static TYPES: LazyLock<Arc<Types>> = LazyLock::new(|| {
        let definitions: Map<String, Value> =
            serde_json::from_str(include_str!("schemas.json")).expect("the schemas are JSON");
        Types::new(move |name| definitions.get(name).cloned())
    });
    let group = if kind == "Deployment" { "apps" } else { "core" };
    match kind {
        "Widget" => Schema::custom(&TYPES, &widget()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]),
        kind => Schema::named(&TYPES, &format!("io.k8s.api.{group}.v1.{kind}")).expect("the kind has a schema"),
    }
}

fn reset(kind: &str, subresource: &str) -> Reset {
    let paths: &[&[&str]] = match (kind, subresource) {
        ("ConfigMap", _) => &[],
        (_, "") => &[&["status"]],
        ("Widget", _) => &[&["metadata"], &["spec"]],
        ("Deployment", _) => &[&["spec"], &["metadata", "labels"]],
        ("Pod", _) => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        _ => &[&["spec"]],
    };
    let paths: Vec<_> = paths.iter().map(|names| FieldPath::of_fields(names)).collect();
    Reset::Fields(paths.iter().collect::<FieldSet>())
}

/// Returns the fields that admission and the registry add after ownership was determined.
fn added_later(kind: &str) -> &'static [&'static str] {
    match kind {
        "Service" => &["/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy", "/status"],
        "Pod" => &[
            "/spec/priority",
            "/spec/preemptionPolicy",
            "/spec/serviceAccount",
            "/spec/serviceAccountName",
            "/spec/tolerations",
            "/spec/volumes",
            "/spec/containers/0/volumeMounts",
            "/spec/containers/1/volumeMounts",
            "/status",
        ],
        _ => &["/status"],
    }
}

/// Returns the body of an update: the stored object with an edit.
pub(crate) fn edited(object: &Value, edit: &Value) -> Value {
    merge_patch(object.clone(), edit.clone())
}

/// Replays a step on the object as the real server had it, and says in what
/// the outcome differs from the real one.
pub(crate) fn differences(history: &History, step: &Step, base: Option<&Value>) -> Vec<String> {
    let schema = schema(&history.kind);
    let zero = match history.kind.as_str() {
        "Widget" => empty(&history.api_version, &history.kind),
        kind => zero(&schema, &history.api_version, kind),
    };
    let versions = OneVersion { api_version: history.api_version.clone(), schema: schema.clone() };
    let reset = reset(&history.kind, &step.subresource);
    let fields = FieldManager {
        api_version: &history.api_version,
        kind: &history.kind,
        subresource: &step.subresource,
        versions: &versions,
        reset: &reset,
        zero: &zero,
    };
    let live = base.unwrap_or(&zero);
    let now = time_of(step, live);
    let manager = manager_name(&step.manager, &step.agent);
    let patched = match step.verb.as_str() {
        "create" => Ok(step.body.clone()),
        "update" => Ok(edited(live, &step.body)),
        "merge" => Ok(merge_patch(live.clone(), step.body.clone())),
        "strategic" => strategic_merge(live.clone(), step.body.clone(), &schema)
            .map_err(|error| (error.code(), error.to_string(), Value::Null)),
        _ => fields.apply(live, &step.body, &manager, step.force, &now).map_err(|error| failure(&error)),
    };
    let mut ours = match patched {
        Ok(ours) if step.code < 300 => ours,
        Ok(_) if is_later(step) => return Vec::new(),
        Ok(ours) => return vec![format!("succeeds with {ours}, but should fail: {}", step.answer["message"])],
        Err(failure) => return different_failure(&failure, step),
    };
    let mut found = different_fields(&ours, step, base, &history.kind);
    let mut tracked = if step.verb == "apply" {
        ours
    } else {
        let mut result = step.answer.clone();
        if history.kind == "Widget" && ours["metadata"]["managedFields"] == json!([]) {
            // Metadata of custom resources loses empty lists when it is decoded.
            put(&mut ours, "/metadata/managedFields", None);
        }
        let later = if step.subresource.is_empty() { added_later(&history.kind) } else { &[] };
        for pointer in later {
            put(&mut result, pointer, pointer_in(&ours, &step.body, live, pointer));
        }
        put(&mut result, "/metadata/managedFields", ours.pointer("/metadata/managedFields").cloned());
        fields.update(live, result, &manager, &now)
    };
    if step.verb == "apply" {
        // Defaults and similar differences do not count as changes.
        let entries = tracked["metadata"]["managedFields"].clone();
        tracked = step.answer.clone();
        tracked["metadata"]["managedFields"] = entries;
    }
    if let Some(base) = base {
        keep_times(&mut tracked, base);
    }
    let (ours, real) = (&tracked["metadata"]["managedFields"], &step.answer["metadata"]["managedFields"]);
    if ours != real {
        found.push(format!("managedFields differ:\n  ours {ours}\n  real {real}"));
    }
    found
}

/// Returns the writer's value of a field that others add later, or the live value.
fn pointer_in(ours: &Value, body: &Value, live: &Value, pointer: &str) -> Option<Value> {
    let given = body.pointer(pointer).and(ours.pointer(pointer));
    given.or_else(|| live.pointer(pointer)).cloned()
}

fn put(object: &mut Value, pointer: &str, value: Option<Value>) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
    match value {
        Some(value) => parent.insert(name.to_owned(), value),
        None => parent.remove(name),
    };
}

/// The time of the write: that of an entry which the object didn't have.
fn time_of(step: &Step, live: &Value) -> String {
    let times = |object: &Value| -> Vec<String> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries.iter().filter_map(|entry| Some(entry["time"].as_str()?.to_owned())).collect()
    };
    let before = times(live);
    let new = times(&step.answer).into_iter().filter(|time| !before.contains(time)).max();
    new.or_else(|| times(&step.answer).into_iter().max()).unwrap_or_else(|| "2000-01-01T00:00:00Z".to_owned())
}
