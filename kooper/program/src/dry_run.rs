//! A dry run: no write changes the cluster, and later reads have its result.
//!
//! The layer of its client is the one place through which all requests pass, also
//! those of a handler's own `Client`. It sends every write with `dryRun=All`, keeps the resulting objects,
//! and puts them into the responses of later reads and into the caches.

mod answer;
mod entry;
mod layer;
mod mirrors;
mod pass;
mod request;
#[cfg(all(test, feature = "apiserver"))]
mod tests;
mod write;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;

use kooper_children::SLOT;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::informer::Watched;
use kooper_runtime::retriever::Scope;
use kooper_sharding::{BUCKET, bucket_of_owner};

use entry::Entry;
use mirrors::Mirrors;

pub(crate) use pass::{DryRunPass, PassResults};
pub(crate) use request::Id;

/// The writes of a dry run so far.
#[derive(Debug, Default)]
pub(crate) struct DryRun {
    entries: Mutex<BTreeMap<Id, Arc<Entry>>>,
    /// One write of an object at a time, as each is computed from the one before.
    turns: Mutex<HashMap<Id, Arc<AsyncMutex<()>>>>,
    mirrors: Mirrors,
    other: Mutex<OtherWrites>,
}

/// Writes whose objects are not kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtherWrites {
    /// The Kubernetes Events that were created, by namespace and name.
    events: BTreeSet<(Option<String>, String)>,
    /// Others, such as `patch deployments.apps shop/web, scale`.
    pub(crate) named: BTreeSet<String>,
}

impl OtherWrites {
    /// The number of Kubernetes Events.
    pub(crate) fn events(&self) -> usize {
        self.events.len()
    }
}

/// The change of one object during the pass.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    /// The object that changed.
    pub(crate) id: Id,
    /// The state before; `None` if the object did not exist.
    pub(crate) before: Option<Value>,
    /// The state after; `None` if it was deleted.
    pub(crate) after: Option<Value>,
    /// `true` if the state before is unknown, because reading it is forbidden.
    pub(crate) blind: bool,
}

impl Difference {
    /// The slot of the object, if it is a declared child.
    pub(crate) fn slot(&self) -> Option<&str> {
        let state = self.after.as_ref().or(self.before.as_ref())?;
        state["metadata"]["labels"][SLOT].as_str()
    }
}

impl DryRun {
    /// From now on the cache of a watch has the results of writes, too.
    pub(crate) fn mirror(&self, kind: &KindInfo, scope: &Scope, watched: &Arc<Watched>) {
        self.mirrors.add(kind, scope, watched);
    }

    /// Begins the pass. Earlier writes do not count as differences.
    pub(crate) fn begin(&self) {
        let mut entries = self.entries.lock();
        for entry in entries.values_mut() {
            *entry = Arc::new(entry.begin());
        }
    }

    /// The objects that differ, in the order of their kinds and names. Each dry run gives
    /// other uids to what it creates: they are replaced, also in labels, selectors and
    /// owner references, and so are the buckets of children, so that two runs show the same.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        let entries = self.entries.lock().clone();
        let made: Vec<_> = entries.iter().filter_map(|(id, entry)| Some((entry.made_uid()?, id))).collect();
        let made: BTreeMap<_, _> = made.iter().map(|(uid, id)| (&**uid, format!("(uid of {})", id.name))).collect();
        let mut differences: Vec<_> = entries.iter().filter_map(|(id, entry)| entry.difference(id.clone())).collect();
        for state in differences.iter_mut().flat_map(|one| [&mut one.before, &mut one.after]).flatten() {
            replace_bucket(state, &made);
            replace_uids(state, &made);
        }
        differences
    }

    /// The other writes.
    pub(crate) fn other_writes(&self) -> OtherWrites {
        self.other.lock().clone()
    }

    fn entry(&self, id: &Id) -> Option<Arc<Entry>> {
        self.entries.lock().get(id).cloned()
    }

    fn turn_of(&self, id: &Id) -> Arc<AsyncMutex<()>> {
        self.turns.lock().entry(id.clone()).or_default().clone()
    }

    /// Keeps the result of a write, and shows it to the caches.
    fn commit(&self, id: Id, entry: Entry) {
        self.mirrors.show(&id, entry.version(), entry.now());
        let mut entries = self.entries.lock();
        if entry.is_needed() {
            entries.insert(id, Arc::new(entry));
        } else {
            entries.remove(&id);
        }
    }
}

/// Replaces the bucket of a child whose owner has one of these uids, as it is a hash of the uid.
fn replace_bucket(child: &mut Value, uids: &BTreeMap<&str, String>) {
    let metadata = &child["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten().map(|owner| &owner["uid"]);
    // The owner of a child in another namespace is in a label.
    let marks = metadata["labels"].as_object().into_iter().flat_map(Map::values);
    let bucket = &metadata["labels"][BUCKET];
    let mut known = owners.chain(marks).filter_map(|uid| uids.get_key_value(uid.as_str()?));
    if let Some((_, words)) = known.find(|(uid, _)| *bucket == bucket_of_owner(uid)) {
        child["metadata"]["labels"][BUCKET] = words.replacen("uid", "bucket", 1).into();
    }
}

/// Replaces each string that is one of these uids.
fn replace_uids(value: &mut Value, uids: &BTreeMap<&str, String>) {
    match value {
        Value::String(text) => {
            if let Some(words) = uids.get(text.as_str()) {
                text.clone_from(words);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|one| replace_uids(one, uids)),
        Value::Object(fields) => fields.values_mut().for_each(|one| replace_uids(one, uids)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
