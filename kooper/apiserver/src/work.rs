//! Work: what follows from writes, in the order in which it is to be done.
//!
//! Verbs put it here; the controllers do it before the request is answered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::kinds::Kind;
use crate::{crd, meta, route};

/// The ConfigMap in which pods find the certificate authority.
pub(crate) const AUTHORITY: &str = "kube-root-ca.crt";
/// The Service by which pods find the server, and its endpoints.
pub(crate) const SERVICE: &str = "kubernetes";

/// What is still to be done, and which objects have owners.
#[derive(Debug, Default)]
pub(crate) struct Work {
    state: Mutex<State>,
    /// Held by the request that is doing the work.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Task>,
    /// The dependents of each owner, by the owner's uid.
    dependents: HashMap<String, HashSet<Place>>,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) key: String,
}

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Task {
    /// A definition was written.
    Establish(String),
    CleanUpDefinition(String),
    /// A definition is gone.
    DropDefinition(String),
    Namespace(String),
    /// A namespace may lack its service account, or the certificate authority.
    Provision(String),
    /// The Service by which pods find the server may be absent.
    Publish,
    /// What is used of the quotas of a namespace may be less, or a quota is another one.
    Quotas(String),
    /// A claim of this namespace was marked, or a pod has ended.
    Claims(String),
    Volume(String),
    /// An object is marked and waits for its dependents.
    Owner(Place),
    /// A dependent is gone that held its owner back: the reference to the owner, and the dependent's namespace.
    Released(Value, String),
    /// An owner is gone.
    Orphans(String),
    /// An object whose owners may all be absent.
    Dependent(Place),
}

impl Place {
    pub(crate) fn of(kind: &Kind, key: String) -> Self {
        let (group, version, resource) = (kind.group.clone(), kind.version.clone(), kind.resource.clone());
        Self { group, version, resource, key }
    }

    fn of_object(kind: &Kind, object: &Value) -> Self {
        Self::of(kind, route::key(meta::text(object, "namespace"), meta::text(object, "name")))
    }
}

/// The references of an object to its owners.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn uid_of(owner: &Value) -> String {
    owner["uid"].as_str().unwrap_or_default().to_owned()
}

/// The work for objects of the core group that others depend on.
fn of_core(kind: &Kind, object: &Value, deleted: bool) -> Option<Task> {
    if !kind.group.is_empty() {
        return None;
    }
    let (namespace, name) = (meta::text(object, "namespace").to_owned(), meta::text(object, "name"));
    match (kind.kind.as_str(), name) {
        ("ServiceAccount", "default") if deleted => Some(Task::Provision(namespace)),
        ("ConfigMap", AUTHORITY) => Some(Task::Provision(namespace)),
        ("Service" | "Endpoints", SERVICE) if deleted && namespace == "default" => Some(Task::Publish),
        ("ResourceQuota", _) if !deleted => Some(Task::Quotas(namespace)),
        ("Pod", _) if deleted || matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) => {
            Some(Task::Claims(namespace))
        }
        ("PersistentVolumeClaim", _) if !deleted && meta::is_deleting(object) => Some(Task::Claims(namespace)),
        ("PersistentVolume", _) if !deleted && meta::is_deleting(object) => Some(Task::Volume(name.to_owned())),
        _ => None,
    }
}

impl Work {
    /// What follows from a state that was written.
    pub(crate) fn after_write(&self, kind: &Kind, object: &Value) {
        let name = meta::text(object, "name");
        let mut state = self.state();
        if kind.custom.is_none() && kind.group == crd::GROUP {
            state.queue.push_back(if meta::is_deleting(object) {
                Task::CleanUpDefinition(name.to_owned())
            } else {
                Task::Establish(name.to_owned())
            });
        }
        if kind.is_namespace() {
            let name = name.to_owned();
            let deleting = meta::is_deleting(object);
            state.queue.push_back(if deleting { Task::Namespace(name) } else { Task::Provision(name) });
        }
        state.queue.extend(of_core(kind, object, false));
        if owners(object).next().is_some() {
            let place = Place::of_object(kind, object);
            for owner in owners(object) {
                state.dependents.entry(uid_of(owner)).or_default().insert(place.clone());
            }
            state.queue.push_back(Task::Dependent(place));
        }
        if meta::is_deleting(object)
            && meta::finalizers(object).iter().any(|name| matches!(*name, "foregroundDeletion" | "orphan"))
        {
            state.queue.push_back(Task::Owner(Place::of_object(kind, object)));
        }
    }

    /// What follows from a write that was admitted and not done: the quotas were charged for nothing.
    pub(crate) fn after_refusal(&self, kind: &Kind, object: &Value) {
        if kind.namespaced {
            self.state().queue.push_back(Task::Quotas(meta::text(object, "namespace").to_owned()));
        }
    }

    /// What follows from a deletion; `object` is the last state.
    pub(crate) fn after_delete(&self, kind: &Kind, object: &Value) {
        let name = meta::text(object, "name");
        let namespace = meta::text(object, "namespace");
        let mut state = self.state();
        if kind.custom.is_none() && kind.group == crd::GROUP {
            state.queue.push_back(Task::DropDefinition(name.to_owned()));
        }
        if kind.kind == "EndpointSlice" && (namespace, name) == ("default", SERVICE) {
            state.queue.push_back(Task::Publish);
        }
        if kind.custom.is_some() {
            state.queue.push_back(Task::CleanUpDefinition(format!("{}.{}", kind.resource, kind.group)));
        }
        if !namespace.is_empty() {
            state.queue.push_back(Task::Namespace(namespace.to_owned()));
            state.queue.push_back(Task::Quotas(namespace.to_owned()));
        }
        state.queue.extend(of_core(kind, object, true));
        let place = Place::of_object(kind, object);
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
            state.queue.push_back(Task::Orphans(uid.to_owned()));
        }
        for owner in owners(object).filter(|owner| owner["blockOwnerDeletion"] == true) {
            state.queue.push_back(Task::Released(owner.clone(), namespace.to_owned()));
        }
    }

    /// The caller's turn to do the work, after another request that is doing it: what that one has taken is done, too.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of work.
    pub(crate) fn next(&self) -> Option<Task> {
        self.state().queue.pop_front()
    }

    /// The dependents of an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.state().dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn has_dependents(&self, uid: &str) -> bool {
        self.state().dependents.contains_key(uid)
    }

    /// The dependents of an owner, which are its dependents no longer.
    pub(crate) fn take_dependents(&self, uid: &str) -> Vec<Place> {
        self.state().dependents.remove(uid).into_iter().flatten().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
