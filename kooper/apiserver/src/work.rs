//! Work: what follows from writes, in the order in which it is to be done.
//!
//! Verbs put it here; the controllers do it before the request is answered.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use crate::kinds::Kind;
use crate::task::{Place, Task};
use crate::{meta, registry};

/// Pending follow-up work, and an index of the objects that have owners.
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

/// The references of an object to its owners.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// A dependent with this reference holds its owner back.
pub(crate) fn blocks(owner: &Value) -> bool {
    owner["blockOwnerDeletion"] == true
}

fn uid_of(owner: &Value) -> String {
    owner["uid"].as_str().unwrap_or_default().to_owned()
}

impl State {
    /// An object is no dependent of this owner any more.
    fn forget(&mut self, uid: &str, place: &Place) {
        if let Some(places) = self.dependents.get_mut(uid) {
            places.remove(place);
            if places.is_empty() {
                self.dependents.remove(uid);
            }
        }
    }

    /// Forgets the owners that a write has removed from an object. Those that it held back before, and does not any
    /// more, may go.
    fn release_owners(&mut self, kind: &Kind, object: &Value, before: &Value) {
        for owner in owners(before) {
            let mut same = owners(object).filter(|other| other["uid"] == owner["uid"]).peekable();
            if same.peek().is_none() {
                let place = Place::of_object(kind, before);
                // Another write may have added the reference again, and may be known already.
                let now = kind.table.get(&place.key).map(|object| object.value());
                if !now.iter().flat_map(owners).any(|other| other["uid"] == owner["uid"]) {
                    self.forget(&uid_of(owner), &place);
                }
            }
            if blocks(owner) && !same.any(blocks) {
                let namespace = meta::text(before, "namespace").to_owned();
                self.queue.push_back(Task::Released(owner.clone(), namespace));
            }
        }
    }
}

impl Work {
    /// Queues the follow-up work of a written state; `before` is the state that it replaces.
    pub(crate) fn after_write(&self, kind: &Kind, object: &Value, before: Option<&Value>) {
        let mut state = self.state.lock();
        state.queue.extend(registry::of(kind).follow_up(object, false));
        if let Some(before) = before {
            state.release_owners(kind, object, before);
        }
        // The garbage collector of Kubernetes ignores Events.
        let is_event = kind.custom.is_none() && kind.resource == "events";
        if !is_event && owners(object).next().is_some() {
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

    /// Queues a recount of the quotas that were charged for a write that failed after its
    /// admission.
    pub(crate) fn after_refusal(&self, kind: &Kind, object: &Value) {
        if kind.namespaced {
            self.state.lock().queue.push_back(Task::Quotas(meta::text(object, "namespace").to_owned()));
        }
    }

    /// Queues the follow-up work of a deletion; `object` is the last state.
    pub(crate) fn after_delete(&self, kind: &Kind, object: &Value) {
        let namespace = meta::text(object, "namespace");
        let mut state = self.state.lock();
        // The quota tasks below count objects that this work recreates.
        state.queue.extend(registry::of(kind).follow_up(object, true));
        if kind.custom.is_some() {
            state.queue.push_back(Task::CleanUpDefinition(format!("{}.{}", kind.resource, kind.group)));
        }
        if !namespace.is_empty() {
            state.queue.push_back(Task::Namespace(namespace.to_owned()));
            state.queue.push_back(Task::Quotas(namespace.to_owned()));
        }
        let place = Place::of_object(kind, object);
        for owner in owners(object) {
            state.forget(&uid_of(owner), &place);
        }
        let uid = meta::text(object, "uid");
        if state.dependents.contains_key(uid) {
            state.queue.push_back(Task::Orphans(uid.to_owned(), namespace.to_owned()));
        }
        for owner in owners(object).filter(|owner| blocks(owner)) {
            state.queue.push_back(Task::Released(owner.clone(), namespace.to_owned()));
        }
    }

    /// The caller's turn to do the work, after another request that is doing it: what that one has taken is done, too.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// The next piece of work.
    pub(crate) fn next(&self) -> Option<Task> {
        self.state.lock().queue.pop_front()
    }

    /// The dependents of an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.state.lock().dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// An object is no dependent of this owner any more.
    pub(crate) fn forget(&self, uid: &str, place: &Place) {
        self.state.lock().forget(uid, place);
    }

    /// The dependents of an owner, which are its dependents no longer.
    pub(crate) fn take_dependents(&self, uid: &str) -> Vec<Place> {
        self.state.lock().dependents.remove(uid).into_iter().flatten().collect()
    }
}
