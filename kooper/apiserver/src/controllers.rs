//! What follows a write: definitions are established, owners take their dependents along, namespaces empty themselves.
//!
//! The work is done before the write is answered, one piece after the other, by whichever request came first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::core::Core;
use crate::kinds::Kind;
use crate::verbs::{self, DeleteOptions};
use crate::{crd, meta, route};

/// What is still to be done, and which objects have owners.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Work>,
    /// Somebody is doing the work.
    busy: bool,
    /// The dependents of each owner, by the owner's uid.
    dependents: HashMap<String, HashSet<Place>>,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    group: String,
    version: String,
    resource: String,
    key: String,
}

#[derive(Debug)]
enum Work {
    Establish(String),
    CleanUpDefinition(String),
    Namespace(String),
    /// An object is marked and waits for its dependents.
    Owner(Place),
    /// An owner is gone.
    Orphans(String),
    /// An object whose owners may all be absent.
    Dependent(Place),
}

impl Controllers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn of(kind: &Kind, object: &Value) -> Self {
        Self {
            group: kind.group.clone(),
            version: kind.version.clone(),
            resource: kind.resource.clone(),
            key: route::key(meta::text(object, "namespace"), meta::text(object, "name")),
        }
    }

    fn kind(&self, core: &Core) -> Option<Arc<Kind>> {
        core.kind(&self.group, &self.version, &self.resource)
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn uid_of(owner: &Value) -> String {
    owner["uid"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn after_write(core: &Arc<Core>, kind: &Arc<Kind>, object: &Value) {
    let name = meta::text(object, "name");
    let mut work = Vec::new();
    if kind.custom.is_none() && kind.group == crd::GROUP {
        work.push(if meta::is_deleting(object) {
            Work::CleanUpDefinition(name.to_owned())
        } else {
            Work::Establish(name.to_owned())
        });
    }
    if kind.is_namespace() && meta::is_deleting(object) {
        work.push(Work::Namespace(name.to_owned()));
    }
    if owners(object).next().is_some() {
        let place = Place::of(kind, object);
        let mut state = core.controllers.state();
        for owner in owners(object) {
            state.dependents.entry(uid_of(owner)).or_default().insert(place.clone());
        }
        work.push(Work::Dependent(place));
    }
    if meta::is_deleting(object)
        && meta::finalizers(object).iter().any(|name| matches!(*name, "foregroundDeletion" | "orphan"))
    {
        work.push(Work::Owner(Place::of(kind, object)));
    }
    run(core, work);
}

pub(crate) fn after_delete(core: &Arc<Core>, kind: &Arc<Kind>, object: &Value) {
    let mut work = Vec::new();
    let name = meta::text(object, "name");
    let namespace = meta::text(object, "namespace");
    if kind.custom.is_none() && kind.group == crd::GROUP {
        crd::drop_kind(core, name);
    }
    if kind.custom.is_some() {
        work.push(Work::CleanUpDefinition(format!("{}.{}", kind.resource, kind.group)));
    }
    if !namespace.is_empty() {
        work.push(Work::Namespace(namespace.to_owned()));
    }
    {
        let place = Place::of(kind, object);
        let mut state = core.controllers.state();
        for owner in owners(object) {
            if let Some(places) = state.dependents.get_mut(&uid_of(owner)) {
                places.remove(&place);
                if places.is_empty() {
                    state.dependents.remove(&uid_of(owner));
                }
            }
        }
        let uid = meta::text(object, "uid");
        if state.dependents.contains_key(uid) {
            work.push(Work::Orphans(uid.to_owned()));
        }
    }
    for owner in owners(object).filter(|owner| owner["blockOwnerDeletion"] == true) {
        if let Some((kind, key)) = find_owner(core, owner, namespace) {
            let (group, version, resource) = (kind.group.clone(), kind.version.clone(), kind.resource.clone());
            work.push(Work::Owner(Place { group, version, resource, key }));
        }
    }
    run(core, work);
}

/// Does this work and all that follows from it, unless somebody is at it already.
fn run(core: &Arc<Core>, work: Vec<Work>) {
    {
        let mut state = core.controllers.state();
        state.queue.extend(work);
        if state.busy || state.queue.is_empty() {
            return;
        }
        state.busy = true;
    }
    loop {
        let next = {
            let mut state = core.controllers.state();
            let next = state.queue.pop_front();
            state.busy = next.is_some();
            next
        };
        let Some(work) = next else { return };
        match work {
            Work::Establish(name) => with_definitions(core, |kind| crd::establish(core, kind, &name)),
            Work::CleanUpDefinition(name) => with_definitions(core, |kind| crd::clean_up(core, kind, &name)),
            Work::Namespace(name) => empty_namespace(core, &name),
            Work::Owner(place) => release_owner(core, &place),
            Work::Orphans(uid) => {
                let places: Vec<_> = core.controllers.state().dependents.remove(&uid).into_iter().flatten().collect();
                for place in places {
                    collect(core, &place);
                }
            }
            Work::Dependent(place) => collect(core, &place),
        }
    }
}

fn with_definitions(core: &Arc<Core>, then: impl FnOnce(&Arc<Kind>)) {
    if let Some(kind) = core.kind(crd::GROUP, "v1", "customresourcedefinitions") {
        then(&kind);
    }
}

/// The owner that a reference names, if it still is that one.
fn find_owner(core: &Core, owner: &Value, namespace: &str) -> Option<(Arc<Kind>, String)> {
    let text = |key: &str| owner[key].as_str().unwrap_or_default();
    let kinds = core.kinds();
    let kind = kinds.of(text("apiVersion"), text("kind"))?;
    let key = route::key(if kind.namespaced { namespace } else { "" }, text("name"));
    let found = kind.table.get(&key)?;
    (*found.traits().uid == *text("uid")).then(|| (Arc::clone(kind), key))
}

/// Deletes an object when it has owners and none of them is there.
fn collect(core: &Arc<Core>, place: &Place) {
    let Some(kind) = place.kind(core) else { return };
    let Some(stored) = kind.table.get(&place.key) else { return };
    let object = stored.value();
    let namespace = meta::text(&object, "namespace");
    let mut known = false;
    for owner in owners(&object) {
        // Owners of a kind that is not served are not known to be absent.
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let served = core.kinds().of(text("apiVersion"), text("kind")).is_some();
        if !served || find_owner(core, owner, namespace).is_some() {
            return;
        }
        known = true;
    }
    if known {
        drop(verbs::remove_object(core, &kind, &place.key, &DeleteOptions::background()));
    }
}

/// Lets an owner go: its dependents are deleted first, or keep living without it.
fn release_owner(core: &Arc<Core>, place: &Place) {
    let Some(kind) = place.kind(core) else { return };
    let Some(stored) = kind.table.get(&place.key) else { return };
    let object = stored.value();
    if !meta::is_deleting(&object) {
        return;
    }
    let uid = meta::text(&object, "uid").to_owned();
    let dependents: Vec<Place> = core.controllers.state().dependents.get(&uid).into_iter().flatten().cloned().collect();
    let finalizers = meta::finalizers(&object);
    if finalizers.contains(&"orphan") {
        for dependent in &dependents {
            disown(core, dependent, &uid);
        }
        core.controllers.state().dependents.remove(&uid);
        remove_finalizer(core, &kind, &place.key, "orphan");
    } else if finalizers.contains(&"foregroundDeletion") {
        let mut blocked = false;
        for dependent in &dependents {
            blocked |= delete_dependent(core, dependent, &uid);
        }
        if !blocked {
            remove_finalizer(core, &kind, &place.key, "foregroundDeletion");
        }
    }
}

/// Deletes a dependent; whether it is still there and holds its owner back.
fn delete_dependent(core: &Arc<Core>, place: &Place, uid: &str) -> bool {
    let Some(kind) = place.kind(core) else { return false };
    let Some(stored) = kind.table.get(&place.key) else { return false };
    let object = stored.value();
    let blocks = owners(&object).any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true);
    let namespace = meta::text(&object, "namespace");
    let others = owners(&object).any(|owner| owner["uid"] != uid && find_owner(core, owner, namespace).is_some());
    if others {
        disown(core, place, uid);
        return false;
    }
    if !meta::is_deleting(&object) {
        let has_own = core.controllers.state().dependents.contains_key(meta::text(&object, "uid"));
        let options = if has_own { DeleteOptions::foreground() } else { DeleteOptions::background() };
        drop(verbs::remove_object(core, &kind, &place.key, &options));
    }
    blocks && kind.table.get(&place.key).is_some()
}

/// Removes the references to one owner.
fn disown(core: &Arc<Core>, place: &Place, uid: &str) {
    let Some(kind) = place.kind(core) else { return };
    change(&kind, &place.key, |object| {
        let rest: Vec<_> = owners(object).filter(|owner| owner["uid"] != uid).cloned().collect();
        if rest.is_empty() {
            meta::of(object).remove("ownerReferences");
        } else {
            meta::of(object).insert("ownerReferences".into(), json!(rest));
        }
    });
}

fn remove_finalizer(core: &Arc<Core>, kind: &Arc<Kind>, key: &str, finalizer: &str) {
    loop {
        let Some(stored) = kind.table.get(key) else { return };
        let mut object = stored.value();
        let rest: Vec<String> =
            meta::finalizers(&object).into_iter().filter(|name| *name != finalizer).map(ToOwned::to_owned).collect();
        if rest.is_empty() {
            if kind.table.remove(key, &stored).is_ok() {
                return after_delete(core, kind, &object);
            }
            continue;
        }
        meta::of(&mut object).insert("finalizers".into(), json!(rest));
        if kind.table.put(key, Some(stored.version), verbs::draft(kind, &object)).is_ok() {
            return;
        }
    }
}

/// Writes a change of an object, whoever else writes.
fn change(kind: &Arc<Kind>, key: &str, change: impl Fn(&mut Value)) {
    loop {
        let Some(stored) = kind.table.get(key) else { return };
        let mut object = stored.value();
        change(&mut object);
        if kind.table.put(key, Some(stored.version), verbs::draft(kind, &object)).is_ok() {
            return;
        }
    }
}

/// Deletes what a terminating namespace holds, and the namespace when it is empty.
fn empty_namespace(core: &Arc<Core>, name: &str) {
    let Some(namespaces) = core.kind("", "v1", "namespaces") else { return };
    let Some(stored) = namespaces.table.get(name) else { return };
    if !meta::is_deleting(&stored.value()) {
        return;
    }
    let prefix = format!("{name}/");
    let mut left = 0;
    let kinds = core.kinds();
    for kind in kinds.stored().filter(|kind| kind.namespaced) {
        let content = |kind: &Kind| -> Vec<Arc<str>> {
            let snapshot = kind.table.snapshot();
            snapshot
                .tree
                .range(&prefix)
                .map(|(key, _)| Arc::clone(key))
                .take_while(|key| key.starts_with(&prefix))
                .collect()
        };
        for key in content(kind) {
            drop(verbs::remove_object(core, kind, &key, &DeleteOptions::default()));
        }
        left += content(kind).len();
    }
    if left > 0 {
        return;
    }
    loop {
        let Some(stored) = namespaces.table.get(name) else { return };
        let mut object = stored.value();
        object["spec"]["finalizers"] = json!([]);
        if meta::finalizers(&object).is_empty() {
            if namespaces.table.remove(name, &stored).is_ok() {
                return after_delete(core, &namespaces, &object);
            }
        } else if namespaces.table.put(name, Some(stored.version), verbs::draft(&namespaces, &object)).is_ok() {
            return;
        }
    }
}
