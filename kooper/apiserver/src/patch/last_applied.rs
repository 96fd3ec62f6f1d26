//! The way from client-side to server-side apply, which kubectl alone takes.
//!
//! Source: "Upgrading from client-side apply to server-side apply" of the
//! server-side apply reference, and `lastappliedmanager.go` of apimachinery.

use serde_json::Value;

use super::conflict::Conflicts;
use super::field_manager::FieldManager;
use super::fields::FieldSet;
use super::format::html_escaped;
use super::typed::compare::compare;
use super::typed::field_set::field_set;
use super::typed::validate::validate;

/// The manager for which this holds.
pub(super) const MANAGER: &str = "kubectl";

/// Where a client-side apply leaves what it applied.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum total size of an object's annotations in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

impl FieldManager<'_> {
    /// The conflicts about other fields than those that kubectl applied
    /// client-side, and that have the same value still.
    pub(super) fn unless_last_applied(&self, live: &Value, conflicts: Conflicts) -> Option<Conflicts> {
        match self.last_applied(live) {
            Some(allowed) => conflicts.without(&allowed),
            None => Some(conflicts),
        }
    }

    fn last_applied(&self, live: &Value) -> Option<FieldSet> {
        let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
        if applied["apiVersion"] != self.api_version {
            return None;
        }
        let node = self.versions.schema(self.api_version)?.root();
        validate(&node, live, false).ok()?;
        validate(&node, &applied, false).ok()?;
        let changes = compare(&node, &applied, live);
        let set = field_set(&node, &applied);
        Some(set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
    }
}

/// Brings the annotation up to date, if the object has one, so that a later
/// client-side apply knows what to remove.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = html_escaped(&config.to_string()) + "\n";
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let sizes = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if sizes.sum::<usize>() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}
