//! Declared children, as an exploration knows them from their labels.

use std::collections::BTreeSet;

use kooper_access::Controller;
use kooper_apiserver::StoredObject;
use kooper_children::{CONTROLLER, DEPTH, DeletesInWaves, KEEP, KEPT, SLOT};
use kooper_runtime::internal::object::OWNER;
use serde_json::Value;

use super::end::name;
use crate::{Cluster, Sent};

/// The place of a child among the children of its owner.
struct Place<'a> {
    /// The uid.
    owner: &'a str,
    controller: &'a str,
    depth: u32,
}

impl<'a> Place<'a> {
    /// The place of a child that is deleted in a wave: not of one that is kept.
    fn of(object: &'a Value) -> Option<Self> {
        let (metadata, labels) = (&object["metadata"], &object["metadata"]["labels"]);
        let is_protected = metadata["annotations"][KEEP].as_str().is_some_and(|value| value != "false");
        if is_protected || !labels[KEPT].is_null() {
            return None;
        }
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.find(|owner| owner["controller"] == true).map_or(&labels[OWNER], |owner| &owner["uid"]);
        Some(Self {
            owner: owner.as_str()?,
            controller: labels[CONTROLLER].as_str()?,
            depth: labels[DEPTH].as_str()?.parse().ok()?,
        })
    }

    /// Returns whether a child at this place is deleted before one at the other place.
    fn is_before(&self, other: &Self) -> bool {
        (self.owner, self.controller) == (other.owner, other.controller) && self.depth > other.depth
    }
}

/// A child that exists while one that it may depend on is deleted.
#[derive(Debug)]
pub(super) struct RemainingChild {
    pub(super) uid: String,
    /// Its name and slot.
    pub(super) shown: String,
}

/// The slot of an object, if it is a declared child.
pub(super) fn slot(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][SLOT].as_str()
}

/// A name with the slot of its object.
pub(super) fn with_slot(name: String, slot: Option<&str>) -> String {
    match slot {
        Some(slot) => format!("{name} (slot {slot})"),
        None => name,
    }
}

/// The names of the controllers that delete their children in waves.
pub(super) fn ordered(controllers: &[Controller]) -> BTreeSet<String> {
    let is_ordered = |controller: &&Controller| controller.extensions().get::<DeletesInWaves>().0;
    controllers.iter().filter(is_ordered).map(|controller| controller.name().to_owned()).collect()
}

/// The children that still exist when a request deletes another child of their owner, although they are deleted in an
/// earlier wave.
pub(super) fn remaining(sent: &Sent, cluster: &Cluster, ordered: &BTreeSet<String>) -> Vec<RemainingChild> {
    // A child is pruned with its version, and deleted in a wave without it. A pass that prunes may have begun before
    // the owner was deleted.
    let is_pruned = !sent.body["preconditions"]["resourceVersion"].is_null();
    if ordered.is_empty() || sent.verb != "delete" || sent.subresource.is_some() || is_pruned {
        return Vec::new();
    }
    let deleted = cluster.object(&sent.group, &sent.resource, &sent.key.to_string());
    let deleted = deleted.as_ref().map(StoredObject::json).unwrap_or_default();
    let Some(place) = Place::of(&deleted).filter(|place| ordered.contains(place.controller)) else {
        return Vec::new();
    };
    let objects = cluster.objects();
    let owner = objects.iter().find(|object| object.uid() == place.owner).map(StoredObject::json);
    if owner.is_some_and(|owner| owner["metadata"]["deletionTimestamp"].is_null()) {
        return Vec::new();
    }
    let found = objects.iter().filter_map(|object| {
        let json = object.json();
        let is_before = Place::of(&json).is_some_and(|other| other.is_before(&place));
        is_before.then(|| RemainingChild { uid: object.uid().to_owned(), shown: shown(&json) })
    });
    found.collect()
}

/// A child whose owner no longer exists. One with an owner reference is left to the garbage collector.
pub(super) fn orphan(objects: &[StoredObject], ignored: &[String]) -> Option<String> {
    let exists = |uid: &str| objects.iter().any(|object| object.uid() == uid);
    let counted = objects.iter().filter(|object| !ignored.iter().any(|kind| kind == object.kind()));
    counted.map(StoredObject::json).find_map(|object| {
        let owner = object["metadata"]["labels"][OWNER].as_str()?;
        (slot(&object).is_some() && !exists(owner)).then(|| shown(&object))
    })
}

fn shown(object: &Value) -> String {
    with_slot(format!("`{}`", name(object, str::to_owned)), slot(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_child_that_is_kept_is_of_no_wave() {
        let child = |annotations: Value, kept: Option<&str>| {
            let labels = json!({OWNER: "uid", CONTROLLER: "shops", SLOT: "web", DEPTH: "1", KEPT: kept});
            Place::of(&json!({"metadata": {"labels": labels, "annotations": annotations}})).map(|place| place.depth)
        };
        assert_eq!(child(json!({}), None), Some(1));
        assert_eq!(child(json!({KEEP: "false"}), None), Some(1));
        assert_eq!(child(json!({KEEP: "yes"}), None), None);
        assert_eq!(child(json!({}), Some("true")), None);
    }
}
