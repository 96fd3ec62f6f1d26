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
use crate::kinds::Kind;
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
                if let Some((kind, key)) = find_owner(cluster, &owner, &namespace) {
                    release_owner(cluster, &Place::of(&kind, key));
                }
            }
            Task::Orphans(uid) => {
                for place in cluster.work.take_dependents(&uid) {
                    collect(cluster, &place);
                }
            }
            Task::Dependent(place) => collect(cluster, &place),
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

fn kind_of(cluster: &Cluster, place: &Place) -> Option<Arc<Kind>> {
    cluster.kind(&place.group, &place.version, &place.resource)
}

fn with_definitions(cluster: &Arc<Cluster>, then: impl FnOnce(&Arc<Kind>)) {
    if let Some(kind) = cluster.kind(crd::GROUP, "v1", "customresourcedefinitions") {
        then(&kind);
    }
}

/// The owner that a reference names, if it still is that one.
fn find_owner(cluster: &Cluster, owner: &Value, namespace: &str) -> Option<(Arc<Kind>, String)> {
    let text = |key: &str| owner[key].as_str().unwrap_or_default();
    let kinds = cluster.kinds();
    let kind = kinds.of(text("apiVersion"), text("kind"))?;
    let key = route::key(if kind.namespaced { namespace } else { "" }, text("name"));
    let found = kind.table.get(&key)?;
    (*found.traits().uid == *text("uid")).then(|| (Arc::clone(kind), key))
}

/// Deletes an object when it has owners and none of them stays; if one stays, it forgets the others.
fn collect(cluster: &Arc<Cluster>, place: &Place) {
    let Some(kind) = kind_of(cluster, place) else { return };
    let Some(stored) = kind.table.get(&place.key) else { return };
    let object = stored.value();
    // An object that is being deleted keeps its owners waiting, and waits as its own deletion demands.
    if meta::is_deleting(&object) {
        return;
    }
    let namespace = meta::text(&object, "namespace");
    let (mut stays, mut awaited, mut leaving) = (false, false, Vec::new());
    for owner in owners(&object) {
        // Owners of a kind that is not served are not known to be absent, nor are those in no known namespace.
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let kinds = cluster.kinds();
        let kind = kinds.of(text("apiVersion"), text("kind"));
        let is_known = kind.is_some_and(|kind| !kind.namespaced || !namespace.is_empty());
        let found = find_owner(cluster, owner, namespace).and_then(|(kind, key)| kind.table.get(&key));
        let found = found.map(|owner| owner.value());
        let waits = found
            .as_ref()
            .is_some_and(|owner| meta::is_deleting(owner) && meta::finalizers(owner).contains(&"foregroundDeletion"));
        if !is_known || found.is_some() && !waits {
            stays = true;
        } else {
            awaited |= waits;
            leaving.push(text("uid"));
        }
    }
    if stays {
        leaving.into_iter().for_each(|uid| disown(cluster, place, uid));
    } else if !leaving.is_empty() {
        let finalizers = meta::finalizers(&object);
        let options = if awaited && cluster.work.has_dependents(meta::text(&object, "uid")) {
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
    collect(cluster, place);
    // It may have been changed, or made again under this name, since it was known as a dependent.
    let Some(stored) = kind_of(cluster, place).and_then(|kind| kind.table.get(&place.key)) else { return false };
    let object = stored.value();
    owners(&object).any(|owner| owner["uid"] == uid && blocks(owner))
}

/// Removes the references to one owner.
fn disown(cluster: &Arc<Cluster>, place: &Place, uid: &str) {
    cluster.work.forget(uid, place);
    let Some(kind) = kind_of(cluster, place) else { return };
    // Retried if another write came first.
    while let Some(stored) = kind.table.get(&place.key) {
        let mut object = stored.value();
        let rest: Vec<_> = owners(&object).filter(|owner| owner["uid"] != uid).cloned().collect();
        if rest.is_empty() {
            meta::of(&mut object).remove("ownerReferences");
        } else {
            meta::of(&mut object).insert("ownerReferences".into(), json!(rest));
        }
        let draft = verbs::draft(&kind, &object).hiding(stored.traits());
        if kind.table.put(&place.key, Some(stored.version), draft).is_ok() {
            return;
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
