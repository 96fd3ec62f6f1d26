//! Custom resource definitions: from an object to a kind that is served.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::Core;
use crate::kinds::{Facts, Kind, Strategy, Subresource};
use crate::schema::Definition;
use crate::status::Cause;
use crate::{meta, time};

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
pub(crate) const GROUP: &str = "apiextensions.k8s.io";

/// Fills in what a definition leaves out.
pub(crate) fn prepare(object: &mut Value, present: Option<&Value>) {
    let names = &mut object["spec"]["names"];
    if let Some(kind) = names["kind"].as_str().map(ToOwned::to_owned) {
        if !names["singular"].is_string() {
            names["singular"] = json!(kind.to_lowercase());
        }
        if !names["listKind"].is_string() {
            names["listKind"] = json!(format!("{kind}List"));
        }
    }
    let spec = &mut object["spec"];
    if !spec["conversion"].is_object() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    if present.is_none() {
        // Every version that ever stored objects is remembered.
        let stored: Vec<_> = stored_version(object).into_iter().collect();
        object["status"] = json!({
            "storedVersions": stored,
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""}
        });
    } else if let Some(version) = stored_version(object) {
        let known = object["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
        if !known.contains(&json!(version)) {
            let all: Vec<_> = known.into_iter().chain([json!(version)]).collect();
            object["status"]["storedVersions"] = json!(all);
        }
    }
}

fn versions(object: &Value) -> impl Iterator<Item = &Value> {
    object["spec"]["versions"].as_array().into_iter().flatten()
}

fn stored_version(object: &Value) -> Option<String> {
    let stored = versions(object).find(|version| version["storage"] == true);
    stored.and_then(|version| version["name"].as_str()).map(ToOwned::to_owned)
}

/// The rules that a definition violates.
pub(crate) fn validate(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let wanted = format!("{plural}.{group}");
    if text("/metadata/name") != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group".to_string();
        causes.push(Cause::invalid("metadata.name", &object["metadata"]["name"], why));
    }
    for (path, field) in [
        ("/spec/group", "spec.group"),
        ("/spec/names/plural", "spec.names.plural"),
        ("/spec/names/kind", "spec.names.kind"),
        ("/spec/scope", "spec.scope"),
    ] {
        if text(path).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if !matches!(text("/spec/scope"), "" | "Namespaced" | "Cluster") {
        let shown = object["spec"]["scope"].to_string();
        causes.push(Cause::not_supported("spec.scope", &shown, &["Cluster", "Namespaced"]));
    }
    if versions(object).filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &object["spec"]["versions"], why));
    }
    for (index, version) in versions(object).enumerate() {
        let at = format!("spec.versions[{index}]");
        if version["name"].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            causes.push(Cause::required(format!("{at}.schema.openAPIV3Schema"), "schemas are required"));
        } else if schema["type"] != "object" {
            let why = "must be object at the root";
            causes.push(Cause::invalid(format!("{at}.schema.openAPIV3Schema.type"), &schema["type"], why));
        }
    }
    causes
}

/// Serves what a stored definition says, and writes its conditions.
pub(crate) fn establish(core: &Arc<Core>, kind: &Arc<Kind>, name: &str) {
    let Some(stored) = kind.table.get(name) else { return };
    let mut object = stored.value();
    if meta::is_deleting(&object) {
        return;
    }
    serve(core, &object);
    let present = object.clone();
    let now = time::now();
    let condition = |kind: &str, reason: &str, message: &str| {
        let old = present["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind);
        let since = old.map_or_else(|| json!(now), |old| old["lastTransitionTime"].clone());
        json!({
            "type": kind, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message
        })
    };
    object["status"]["conditions"] = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]);
    object["status"]["acceptedNames"] = object["spec"]["names"].clone();
    let mut finalizers: Vec<_> = meta::finalizers(&object).into_iter().map(ToOwned::to_owned).collect();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        meta::of(&mut object).insert("finalizers".into(), json!(finalizers));
    }
    if object != present && kind.table.put(name, Some(stored.version), crate::verbs::draft(kind, &object)).is_err() {
        // Somebody wrote in between: what they wrote is established in turn.
        establish(core, kind, name);
    }
}

/// Replaces the kinds of a definition by those that it has now.
fn serve(core: &Arc<Core>, object: &Value) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, resource) = (text("/spec/group"), text("/spec/names/plural"));
    let words = |path: &str| -> Vec<String> {
        let list = object.pointer(path).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let since = core.store.version();
    core.change_kinds(|kinds| {
        let present: Vec<_> =
            kinds.iter().filter(|kind| kind.group == group && kind.resource == resource).cloned().collect();
        if present.iter().any(|kind| kind.custom.is_none()) {
            return;
        }
        let table = present.first().map_or_else(|| core.store.table(), |kind| Arc::clone(&kind.table));
        kinds.remove(&group, &resource);
        let mut served: Vec<&Value> = versions(object).filter(|version| version["served"] == true).collect();
        served.sort_by_key(|version| std::cmp::Reverse(priority(version["name"].as_str().unwrap_or_default())));
        for version in served {
            let mut definition = Definition::read(object, version, since);
            if let Some(same) =
                present.iter().filter_map(|kind| kind.custom.as_ref()).find(|other| other.same_schema(&definition))
            {
                definition.keep_age(same);
            }
            let mut subresources = Vec::new();
            let names = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect();
            if definition.has_status {
                subresources.push(Subresource {
                    name: "status".to_owned(),
                    group_version: None,
                    kind: text("/spec/names/kind"),
                    verbs: names(&["get", "patch", "update"]),
                });
            }
            if definition.scale.is_some() {
                subresources.push(Subresource {
                    name: "scale".to_owned(),
                    group_version: Some(("autoscaling".to_owned(), "v1".to_owned())),
                    kind: "Scale".to_owned(),
                    verbs: names(&["get", "patch", "update"]),
                });
            }
            let fields = version["selectableFields"].as_array().into_iter().flatten();
            let facts = Facts {
                group: group.clone(),
                version: version["name"].as_str().unwrap_or_default().to_owned(),
                resource: resource.clone(),
                singular: text("/spec/names/singular"),
                kind: text("/spec/names/kind"),
                list_kind: text("/spec/names/listKind"),
                namespaced: object["spec"]["scope"] == "Namespaced",
                verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
                short_names: words("/spec/names/shortNames"),
                categories: words("/spec/names/categories"),
                storage_hash: None,
                subresources,
                strategy: Strategy::default(),
                fields: fields
                    .filter_map(|field| field["jsonPath"].as_str())
                    .map(|path| path.trim_start_matches('.').to_owned())
                    .collect(),
                ..Facts::default()
            };
            kinds.add(Kind { facts: Arc::new(facts), table: Arc::clone(&table), custom: Some(Arc::new(definition)) });
        }
    });
}

/// The order of versions in discovery: v2, v1, v1beta2, v1alpha1, others.
pub(crate) fn priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (name, rank) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(name) {
            return match (major.parse(), minor.parse()) {
                (Ok(major), Ok(minor)) => (rank, major, minor),
                _ => (0, 0, 0),
            };
        }
    }
    rest.parse().map_or((0, 0, 0), |major| (3, major, 0))
}

/// Sets the deletion mark of a definition.
pub(crate) fn mark(object: &mut Value) {
    if meta::is_deleting(object) {
        return;
    }
    let now = time::now();
    meta::of(object).insert("deletionTimestamp".into(), json!(now));
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    });
    match &mut object["status"]["conditions"] {
        Value::Array(conditions) => conditions.push(condition),
        conditions => *conditions = json!([condition]),
    }
}

/// Deletes the objects of a definition that is going, and lets it go when none is left.
pub(crate) fn clean_up(core: &Arc<Core>, kind: &Arc<Kind>, name: &str) {
    let Some(stored) = kind.table.get(name) else { return };
    let mut object = stored.value();
    if !meta::is_deleting(&object) || !meta::finalizers(&object).contains(&FINALIZER) {
        return;
    }
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    let custom = core.kinds().iter().find(|kind| kind.group == group && kind.resource == resource).cloned();
    if let Some(custom) = custom {
        let snapshot = custom.table.snapshot();
        for (key, _) in snapshot.tree.range("") {
            // What is gone already needs no deletion.
            drop(crate::verbs::remove_object(core, &custom, key, &crate::verbs::DeleteOptions::default()));
        }
        if custom.table.snapshot().tree.len() > 0 {
            return;
        }
    }
    let finalizers: Vec<_> =
        meta::finalizers(&object).into_iter().filter(|name| *name != FINALIZER).map(ToOwned::to_owned).collect();
    if finalizers.is_empty() {
        if kind.table.remove(name, &stored).is_err() {
            return clean_up(core, kind, name);
        }
        drop_kind(core, name);
        return;
    }
    meta::of(&mut object).insert("finalizers".into(), json!(finalizers));
    if kind.table.put(name, Some(stored.version), crate::verbs::draft(kind, &object)).is_err() {
        clean_up(core, kind, name);
    }
}

/// Serves the kind of a definition no longer.
pub(crate) fn drop_kind(core: &Arc<Core>, name: &str) {
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    let found = core
        .kinds()
        .iter()
        .find(|kind| kind.group == group && kind.resource == resource && kind.custom.is_some())
        .cloned();
    core.change_kinds(|kinds| kinds.remove(group, resource));
    if let Some(kind) = found {
        kind.table.close();
    }
}
