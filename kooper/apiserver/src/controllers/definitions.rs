//! Custom resource definitions: from a stored object to a kind that is served, and back.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::crd::{FINALIZER, priority, versions};
use crate::kinds::{Facts, Flags, Kind, Subresource};
use crate::schema::Definition;
use crate::verbs::{self, DeleteOptions};
use crate::{fields, meta, time};

/// Serves what a stored definition says, and writes its conditions.
pub(super) fn establish(cluster: &Arc<Cluster>, kind: &Arc<Kind>, name: &str) {
    let Some(stored) = kind.table.get(name) else { return };
    let mut object = stored.value();
    if meta::is_deleting(&object) {
        return;
    }
    serve(cluster, &object);
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
    if object != present {
        object = fields::updated(cluster, kind, "status", &present, object, "kube-apiserver");
    }
    let mut finalizers: Vec<_> = meta::finalizers(&object).into_iter().map(ToOwned::to_owned).collect();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
        meta::of(&mut object).insert("finalizers".into(), json!(finalizers));
    }
    if object != present && kind.table.put(name, Some(stored.version), verbs::draft(kind, &object)).is_err() {
        // Another write came in between: what it wrote is established in turn.
        establish(cluster, kind, name);
    }
}

/// Replaces the kinds of a definition by those that it has now.
fn serve(cluster: &Arc<Cluster>, object: &Value) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, resource) = (text("/spec/group"), text("/spec/names/plural"));
    let words = |path: &str| -> Vec<String> {
        let list = object.pointer(path).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let since = cluster.store.version();
    cluster.change_kinds(|kinds| {
        let present: Vec<_> =
            kinds.iter().filter(|kind| kind.group == group && kind.resource == resource).cloned().collect();
        if present.iter().any(|kind| kind.custom.is_none()) {
            return;
        }
        let table = present.first().map_or_else(|| cluster.store.table(), |kind| Arc::clone(&kind.table));
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
                flags: Flags::default(),
                fields: fields
                    .filter_map(|field| field["jsonPath"].as_str())
                    .map(|path| path.trim_start_matches('.').to_owned())
                    .collect(),
                ..Facts::default()
            };
            kinds.add(Kind {
                facts: Arc::new(facts),
                table: Arc::clone(&table),
                custom: Some(Arc::new(definition)),
                stored: None,
            });
        }
    });
}

/// Deletes the objects of a definition that is going, and lets it go when none is left.
pub(super) fn clean_up(cluster: &Arc<Cluster>, kind: &Arc<Kind>, name: &str) {
    let Some(stored) = kind.table.get(name) else { return };
    let mut object = stored.value();
    if !meta::is_deleting(&object) || !meta::finalizers(&object).contains(&FINALIZER) {
        return;
    }
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    let custom = cluster.kinds().iter().find(|kind| kind.group == group && kind.resource == resource).cloned();
    if let Some(custom) = custom {
        let snapshot = custom.table.snapshot();
        for (key, _) in snapshot.tree.range("") {
            // Objects that are already gone need no deletion.
            drop(verbs::remove_object(cluster, &custom, key, &DeleteOptions::default()));
        }
        if custom.table.snapshot().tree.len() > 0 {
            return;
        }
    }
    let finalizers: Vec<_> =
        meta::finalizers(&object).into_iter().filter(|name| *name != FINALIZER).map(ToOwned::to_owned).collect();
    if finalizers.is_empty() {
        if kind.table.remove(name, &stored).is_err() {
            return clean_up(cluster, kind, name);
        }
        drop_kind(cluster, name);
        return;
    }
    meta::of(&mut object).insert("finalizers".into(), json!(finalizers));
    if kind.table.put(name, Some(stored.version), verbs::draft(kind, &object)).is_err() {
        clean_up(cluster, kind, name);
    }
}

/// Serves the kind of a definition no longer.
pub(super) fn drop_kind(cluster: &Arc<Cluster>, name: &str) {
    let (resource, group) = name.split_once('.').unwrap_or((name, ""));
    let found = cluster
        .kinds()
        .iter()
        .find(|kind| kind.group == group && kind.resource == resource && kind.custom.is_some())
        .cloned();
    cluster.change_kinds(|kinds| kinds.remove(group, resource));
    if let Some(kind) = found {
        kind.table.close();
    }
}
