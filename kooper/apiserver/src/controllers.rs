//! Controllers that react to writes: they establish CRDs, garbage-collect dependents and empty
//! terminating namespaces.
//!
//! The work is done before the write is answered, task by task, by whichever request comes first.

mod definitions;
mod protection;
mod quota;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::{Kind, Kinds};
use crate::store::Object;
use crate::task::{Place, Task};
use crate::verbs::{self, DeleteOptions};
use crate::work::{blocks, owners};
use crate::{bootstrap, crd, meta, route};

/// Does the work that is there and all that follows from it.
pub(crate) fn run(cluster: &Arc<Cluster>) {
    let _turn = cluster.work.turn();
    while let Some(task) = cluster.work.next() {
        match task {
            Task::Establish(name) => with_definitions(cluster, |kind| definitions::establish(cluster, kind, &name)),
            Task::CleanUpDefinition(name) => {
                with_definitions(cluster, |kind| definitions::clean_up(cluster, kind, &name));
            }
            Task::DropDefinition(name) => definitions::drop_kind(cluster, &name),
            Task::Namespace(name) => empty_namespace(cluster, &name),
            Task::Provision(namespace) => provision(cluster, &namespace),
            Task::Publish => bootstrap::publish_server(cluster),
            Task::Endpoints(namespace, name) => {
                if let Some(kind) = cluster.kind("", "v1", "endpoints") {
                    // Not every Service has some.
                    let key = route::key(&namespace, &name);
                    drop(verbs::remove_object(cluster, &kind, &key, &DeleteOptions::default()));
                }
            }
            Task::Quotas(namespace) => quota::count(cluster, &namespace),
            Task::Claims(namespace) => {
                protection::release_claims(cluster, &namespace);
                quota::count(cluster, &namespace);
            }
            Task::Volume(name) => protection::release_volume(cluster, &name),
            Task::Owner(place) => release_owner(cluster, &place),
            Task::Released(owner, namespace) => {
                let kinds = cluster.kinds();
                if let Some(kind) = kind_of_owner(&kinds, &owner)
                    && let Some((key, _)) = find_owner(kind, &owner, &namespace)
                {
                    release_owner(cluster, &Place::of(kind, key));
                }
            }
            Task::Orphans(uid, namespace) => {
                for place in cluster.work.take_dependents(&uid) {
                    collect(cluster, &place, Some((uid.as_str(), namespace.as_str())));
                }
            }
            Task::Dependent(place) => collect(cluster, &place, None),
        }
    }
}

/// Creates the default objects that a namespace lacks, unless it is being deleted.
fn provision(cluster: &Arc<Cluster>, namespace: &str) {
    let found = cluster.kind("", "v1", "namespaces").and_then(|kind| kind.table.get(namespace));
    if found.is_some_and(|object| !meta::is_deleting(&object.value())) {
        bootstrap::provision(cluster, namespace);
    }
}

/// The kind of an object, in one of the versions that are served.
fn kind_of(cluster: &Cluster, place: &Place) -> Option<Arc<Kind>> {
    cluster.kinds().iter().find(|kind| kind.group == place.group && kind.resource == place.resource).cloned()
}

fn with_definitions(cluster: &Arc<Cluster>, then: impl FnOnce(&Arc<Kind>)) {
    if let Some(kind) = cluster.kind(crd::GROUP, "v1", "customresourcedefinitions") {
        then(&kind);
    }
}

/// The kind of the owner that a reference names, if it is served.
fn kind_of_owner<'a>(kinds: &'a Kinds, owner: &Value) -> Option<&'a Arc<Kind>> {
    kinds.of(owner["apiVersion"].as_str().unwrap_or_default(), owner["kind"].as_str().unwrap_or_default())
}

/// The owner that a reference names, with its key, if it still is that one.
fn find_owner(kind: &Kind, owner: &Value, namespace: &str) -> Option<(String, Arc<Object>)> {
    let key = route::key(if kind.namespaced { namespace } else { "" }, owner["name"].as_str().unwrap_or_default());
    let found = kind.table.get(&key)?;
    (owner["uid"] == *found.traits().uid).then_some((key, found))
}

/// Returns `true` if an object waits for the deletion of its dependents.
fn waits(object: &Object) -> bool {
    let object = object.value();
    meta::is_deleting(&object) && meta::finalizers(&object).contains(&"foregroundDeletion")
}

/// Deletes an object when it has owners and none of them stays; if one stays, it forgets the others. `gone` are the uid
/// and the namespace of an owner that was deleted.
fn collect(cluster: &Arc<Cluster>, place: &Place, gone: Option<(&str, &str)>) {
    let Some(kind) = kind_of(cluster, place) else { return };
    let Some(stored) = kind.table.get(&place.key) else { return };
    let object = stored.value();
    // An object that is being deleted keeps its owners waiting, and waits as its own deletion demands.
    if meta::is_deleting(&object) {
        return;
    }
    let namespace = meta::text(&object, "namespace");
    let (mut stays, mut awaited, mut leaving) = (false, false, Vec::new());
    let kinds = cluster.kinds();
    for owner in owners(&object) {
        let uid = owner["uid"].as_str().unwrap_or_default();
        let found = match kind_of_owner(&kinds, owner) {
            // A definition that is deleted takes its kind along with the last object.
            None if gone.is_some_and(|(gone, of)| gone == uid && (of.is_empty() || of == namespace)) => None,
            Some(kind) if !kind.namespaced || !namespace.is_empty() => find_owner(kind, owner, namespace),
            // Owners of a kind that is not served are not known to be absent, nor are those in no known namespace.
            _ => {
                stays = true;
                continue;
            }
        };
        match found {
            Some((_, found)) if !waits(&found) => stays = true,
            found => {
                awaited |= found.is_some();
                leaving.push(uid);
            }
        }
    }
    if stays {
        leaving.into_iter().for_each(|uid| disown(cluster, place, uid));
    } else if !leaving.is_empty() {
        let finalizers = meta::finalizers(&object);
        let uid = meta::text(&object, "uid");
        let dependents = if awaited { cluster.work.dependents(uid) } else { Vec::new() };
        let options = if !dependents.is_empty() {
            let stored = |place: &Place| kind_of(cluster, place)?.table.get(&place.key);
            // Owners in a circle would wait for each other forever.
            if dependents.iter().filter_map(stored).any(|dependent| waits(&dependent)) {
                change_owners(cluster, place, |owners| {
                    for owner in owners.iter_mut().filter(|owner| blocks(owner)) {
                        owner["blockOwnerDeletion"] = json!(false);
                    }
                });
            }
            DeleteOptions::foreground()
        } else if finalizers.iter().any(|name| matches!(*name, "orphan" | "foregroundDeletion")) {
            // The policy that it has already.
            DeleteOptions::default()
        } else {
            DeleteOptions::background()
        };
        drop(verbs::remove_object(cluster, &kind, &place.key, &options));
    }
}

/// Lets an owner go: its dependents are deleted first, or keep living without it.
fn release_owner(cluster: &Arc<Cluster>, place: &Place) {
    let Some(kind) = kind_of(cluster, place) else { return };
    let Some(stored) = kind.table.get(&place.key) else { return };
    let object = stored.value();
    if !meta::is_deleting(&object) {
        return;
    }
    let uid = meta::text(&object, "uid").to_owned();
    let dependents = cluster.work.dependents(&uid);
    let finalizers = meta::finalizers(&object);
    if finalizers.contains(&"orphan") {
        for dependent in &dependents {
            disown(cluster, dependent, &uid);
        }
        drop(cluster.work.take_dependents(&uid));
        remove_finalizer(cluster, &kind, &place.key, "orphan");
    } else if finalizers.contains(&"foregroundDeletion") {
        let mut blocked = false;
        for dependent in &dependents {
            blocked |= delete_dependent(cluster, dependent, &uid);
        }
        if !blocked {
            remove_finalizer(cluster, &kind, &place.key, "foregroundDeletion");
        }
    }
}

/// Deletes a dependent of an owner that waits. Returns `true` if it still exists and holds the owner back.
fn delete_dependent(cluster: &Arc<Cluster>, place: &Place, uid: &str) -> bool {
    collect(cluster, place, None);
    // It may have been changed, or made again under this name, since it was known as a dependent.
    let Some(stored) = kind_of(cluster, place).and_then(|kind| kind.table.get(&place.key)) else { return false };
    let object = stored.value();
    owners(&object).any(|owner| owner["uid"] == uid && blocks(owner))
}

/// Removes the references to one owner.
fn disown(cluster: &Arc<Cluster>, place: &Place, uid: &str) {
    cluster.work.forget(uid, place);
    change_owners(cluster, place, |owners| owners.retain(|owner| owner["uid"] != uid));
}

/// Changes the references of an object to its owners. Retried if another write came first.
fn change_owners(cluster: &Arc<Cluster>, place: &Place, change: impl Fn(&mut Vec<Value>)) {
    let Some(kind) = kind_of(cluster, place) else { return };
    while let Some(stored) = kind.table.get(&place.key) {
        let present = stored.value();
        let mut object = present.clone();
        let mut changed: Vec<_> = owners(&object).cloned().collect();
        change(&mut changed);
        if changed.is_empty() {
            meta::of(&mut object).remove("ownerReferences");
        } else {
            meta::of(&mut object).insert("ownerReferences".into(), json!(changed));
        }
        if object == present {
            return;
        }
        let draft = verbs::draft(&kind, &object).hiding(stored.traits());
        if kind.table.put(&place.key, Some(stored.version), draft).is_ok() {
            return cluster.work.after_write(&kind, &object, Some(&present));
        }
    }
}

/// Removes a finalizer of an object that is marked for deletion, and the object if nothing else holds it back.
fn remove_finalizer(cluster: &Arc<Cluster>, kind: &Arc<Kind>, key: &str, finalizer: &str) {
    release(cluster, kind, key, |object| {
        // Another object may have the name by now.
        let is_held = meta::is_deleting(object) && meta::finalizers(object).contains(&finalizer);
        if is_held {
            meta::change_finalizers(object, |all| all.retain(|name| name != finalizer));
        }
        is_held
    });
}

/// Writes the change of an object, or removes the object if nothing else holds it back. Retried if another write came
/// first. `change` returns `false` if there is nothing to do.
fn release(cluster: &Arc<Cluster>, kind: &Arc<Kind>, key: &str, change: impl Fn(&mut Value) -> bool) {
    while let Some(stored) = kind.table.get(key) {
        let present = stored.value();
        let mut object = present.clone();
        if !change(&mut object) {
            return;
        }
        if verbs::is_removable(kind, &object) {
            if kind.table.remove(key, &stored).is_ok() {
                return cluster.work.after_delete(kind, &object);
            }
            continue;
        }
        let draft = verbs::draft(kind, &object).hiding(stored.traits());
        if object == present || kind.table.put(key, Some(stored.version), draft).is_ok() {
            return;
        }
    }
}

/// Deletes what a terminating namespace holds, and the namespace when it is empty.
fn empty_namespace(cluster: &Arc<Cluster>, name: &str) {
    let Some(namespaces) = cluster.kind("", "v1", "namespaces") else { return };
    let Some(stored) = namespaces.table.get(name) else { return };
    if !meta::is_deleting(&stored.value()) {
        return;
    }
    let mut left = 0;
    let kinds = cluster.kinds();
    for kind in kinds.stored().filter(|kind| kind.namespaced) {
        let content = |kind: &Kind| -> Vec<Arc<str>> {
            kind.table.snapshot().tree.in_namespace(name).map(|(key, _)| Arc::clone(key)).collect()
        };
        for key in content(kind) {
            drop(verbs::remove_object(cluster, kind, &key, &DeleteOptions::background()));
        }
        left += content(kind).len();
    }
    if left > 0 {
        return;
    }
    release(cluster, &namespaces, name, |object| {
        // Clients remove their own.
        if let Some(Value::Array(finalizers)) = object.pointer_mut("/spec/finalizers") {
            finalizers.retain(|finalizer| finalizer != "kubernetes");
            if finalizers.is_empty() {
                object["spec"] = json!({});
            }
        }
        true
    });
}
