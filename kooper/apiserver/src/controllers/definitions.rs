//! Custom resource definitions: from a stored object to a kind that is served, and back.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cause::aggregate;
use crate::cluster::Cluster;
use crate::crd::{FINALIZER, GROUP, deprecation, priority, versions};
use crate::kinds::{Kind, ResourceInfo, Subresource};
use crate::schema::Definition;
use crate::verbs::{self, DeleteOptions};
use crate::{conditions, fields, meta};

/// Serves what a stored definition says, and writes its conditions.
pub(super) fn establish(cluster: &Arc<Cluster>, kind: &Arc<Kind>, name: &str) {
    let Some(stored) = kind.table.get(name) else { return };
    let mut object = stored.value();
    if meta::is_deleting(&object) {
        return;
    }
    let present = object.clone();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        // The time follows from the status.
        json!({"type": kind, "status": status, "lastTransitionTime": null, "reason": reason, "message": message})
    };
    let (names, conflict) = accepted_names(kind, &object);
    let is_established = conflict.is_none() || conditions::has(&present, "Established", "True");
    let accepted = match &conflict {
        None => condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", "False", reason, message),
    };
    let established = if is_established {
        condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    } else {
        condition("Established", "False", "NotAccepted", "not all names are accepted")
    };
    conditions::set(&mut object, accepted);
    conditions::set(&mut object, established);
    object["status"]["acceptedNames"] = names;
    if is_established {
        serve(cluster, &object);
    }
    if object != present {
        object = fields::updated(cluster, kind, "status", &present, object, "kube-apiserver");
    }
    if is_established && !meta::finalizers(&object).contains(&FINALIZER) {
        meta::change_finalizers(&mut object, |all| all.push(FINALIZER.to_owned()));
    }
    if object == present {
        return;
    }
    if kind.table.put(name, Some(stored.version), verbs::draft(kind, &object)).is_err() {
        // Another write came in between: what it wrote is established in turn.
        establish(cluster, kind, name);
    } else if object["status"]["acceptedNames"] != present["status"]["acceptedNames"] {
        let group = object["spec"]["group"].as_str().unwrap_or_default();
        reconsider(cluster, kind, group);
    }
}

/// The names by which a definition is known, and why they are not all that it asks for: another one of its group has
/// them.
fn accepted_names(definitions: &Kind, object: &Value) -> (Value, Option<(&'static str, String)>) {
    let listed = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten().chain([value]);
        list.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    let (asked, mut names) = (&object["spec"]["names"], object["status"]["acceptedNames"].clone());
    let suffix = format!(".{}", object["spec"]["group"].as_str().unwrap_or_default());
    let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
    let snapshot = definitions.table.snapshot();
    for (_, other) in snapshot.tree.range("").filter(|(key, _)| key.ends_with(&suffix)) {
        let other = other.value();
        let taken = &other["status"]["acceptedNames"];
        if other["spec"]["group"] == object["spec"]["group"] {
            resources.extend(["plural", "singular", "shortNames"].iter().flat_map(|key| listed(&taken[*key])));
            kinds.extend(["kind", "listKind"].iter().flat_map(|key| listed(&taken[*key])));
        }
    }
    let mut conflict = None;
    for (key, reason, taken) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let own = listed(&names[key]);
        let wrong = listed(&asked[key]).into_iter().filter(|name| !own.contains(name) && taken.contains(name));
        let wrong: Vec<_> = wrong.map(|name| format!("{name:?} is already in use")).collect();
        if wrong.is_empty() {
            names[key] = asked[key].clone();
        } else {
            conflict = Some((reason, aggregate(&wrong)));
        }
    }
    if conflict.is_none() {
        return (asked.clone(), None);
    }
    names["categories"] = asked["categories"].clone();
    if let Value::Object(entries) = &mut names {
        entries.retain(|_, value| !value.is_null());
    }
    (names, conflict)
}

/// Establishes the definitions of a group that lacked a name, as it may be free now.
fn reconsider(cluster: &Arc<Cluster>, kind: &Arc<Kind>, group: &str) {
    let suffix = format!(".{group}");
    let snapshot = kind.table.snapshot();
    for (key, object) in snapshot.tree.range("").filter(|(key, _)| key.ends_with(&suffix)) {
        if conditions::has(&object.value(), "NamesAccepted", "False") {
            establish(cluster, kind, key);
        }
    }
}

/// Replaces the kinds of a definition by those that it has now, under the names that were accepted.
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
            definition.deprecation = deprecation(object, version);
            if let Some(same) =
                present.iter().filter_map(|kind| kind.custom.as_ref()).find(|other| other.same_schema(&definition))
            {
                definition.keep_age(same);
            }
            let subresource = |name: &str, group_version: Option<(String, String)>, kind: String| Subresource {
                name: name.to_owned(),
                group_version,
                kind,
                verbs: ["get", "patch", "update"].map(ToOwned::to_owned).into(),
            };
            let status = subresource("status", None, text("/status/acceptedNames/kind"));
            let scale = subresource("scale", Some(("autoscaling".to_owned(), "v1".to_owned())), "Scale".to_owned());
            let subresources = [(status, definition.has_status), (scale, definition.scale.is_some())];
            let fields = version["selectableFields"].as_array().into_iter().flatten();
            let info = ResourceInfo {
                group: group.clone(),
                version: version["name"].as_str().unwrap_or_default().to_owned(),
                resource: resource.clone(),
                singular: text("/status/acceptedNames/singular"),
                kind: text("/status/acceptedNames/kind"),
                list_kind: text("/status/acceptedNames/listKind"),
                namespaced: object["spec"]["scope"] == "Namespaced",
                verbs: verbs.map(ToOwned::to_owned).into(),
                short_names: words("/status/acceptedNames/shortNames"),
                categories: words("/status/acceptedNames/categories"),
                subresources: subresources.into_iter().filter_map(|(part, has)| has.then_some(part)).collect(),
                fields: fields
                    .filter_map(|field| field["jsonPath"].as_str())
                    .map(|path| path.trim_start_matches('.').to_owned())
                    .collect(),
                ..ResourceInfo::default()
            };
            kinds.add(Kind {
                info: Arc::new(info),
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
    let is_own = |kind: &&Arc<Kind>| kind.group == group && kind.resource == resource && kind.custom.is_some();
    let own: Vec<Arc<Kind>> = cluster.kinds().iter().filter(is_own).cloned().collect();
    own.iter().filter_map(|kind| kind.custom.as_ref()).for_each(|definition| definition.end());
    if let Some(custom) = own.first() {
        let snapshot = custom.table.snapshot();
        for (key, _) in snapshot.tree.range("") {
            // Objects that are already gone need no deletion.
            drop(verbs::remove_object(cluster, custom, key, &DeleteOptions::default()));
        }
        if custom.table.snapshot().tree.len() > 0 {
            return;
        }
    }
    meta::change_finalizers(&mut object, |all| all.retain(|name| name != FINALIZER));
    if meta::finalizers(&object).is_empty() {
        if kind.table.remove(name, &stored).is_err() {
            return clean_up(cluster, kind, name);
        }
        drop_kind(cluster, name);
        return;
    }
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
    if let Some(definitions) = cluster.kind(GROUP, "v1", "customresourcedefinitions") {
        reconsider(cluster, &definitions, group);
    }
}
