//! The state that a plan is made from: the children of an owner, and what the pass has done so far.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::readiness::Readiness;

/// The name of a child: its resource, such as `deployments.apps`, its namespace and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildId {
    /// The resource.
    pub resource: Arc<str>,
    /// The namespace; `None` for a cluster-scoped child.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

/// The slot that a child was applied for, as its labels say. They outlive the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotLabel {
    /// The name of the slot.
    pub slot: Arc<str>,
    /// The slot's depth, by which children are deleted in waves.
    pub depth: u32,
    /// `true` if the slot keeps its children.
    pub keep: bool,
}

/// A child that exists: an object whose controlling owner is the owner of the pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The uid.
    pub uid: Arc<str>,
    /// The resource version.
    pub version: Arc<str>,
    /// Its labels; `None` for a child from before, or one that the handler applies itself.
    pub label: Option<SlotLabel>,
    /// Its readiness.
    pub readiness: Readiness,
    /// `true` if it is being deleted.
    pub is_terminating: bool,
    /// `true` if only its metadata is known, because the rest does not decode.
    pub is_unreadable: bool,
    /// `true` if it is not pruned by default: its kind is kept, or it was adopted.
    pub is_kept: bool,
    /// `true` if its annotation says that it is never deleted.
    pub is_protected: bool,
    /// `true` if it has no owner reference, so that Kubernetes does not delete it with its owner.
    pub is_apart: bool,
    /// `true` if it is in another namespace than its owner: users with write access there can set its labels, so that
    /// only the function says that it is a child of the slot. `false` while the owner is being deleted.
    pub is_elsewhere: bool,
    /// `true` if its labels name another controller.
    pub is_foreign: bool,
    /// `true` if its owner reference names another version of the owner's kind than the program has.
    pub is_outdated: bool,
}

/// The call of a slot's function in this pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Run {
    /// It was not called yet.
    #[default]
    NotCalled,
    /// It returned children, which are in [`SlotProgress::desired`].
    Returned,
    /// It waits for something, which is no failure.
    Waits(String),
    /// It failed.
    Failed(String),
}

/// The write of a child in this pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// It was not applied yet.
    Pending,
    /// It is applied.
    Applied,
    /// It was refused, and only because an immutable field would change.
    Immutable(String),
    /// It was refused, and a new object with the same fields would be refused, too.
    Invalid(String),
    /// It was refused, or its object belongs to another owner.
    Refused(String),
}

/// The progress of a slot in this pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotProgress {
    /// `true` if the kind of its children is not installed.
    pub is_absent: bool,
    /// The call of its function.
    pub run: Run,
    /// The children that the function returned, with their writes.
    pub desired: Vec<(ChildId, Write)>,
}

/// The owner of the children.
#[derive(Debug, Clone, Default)]
pub struct Owner {
    /// `true` if it is marked for deletion.
    pub is_terminating: bool,
    /// `true` if its children are deleted in waves; `false` if they outlive it, after a deletion with `--cascade=orphan`.
    pub is_ordered: bool,
}

/// The state that a plan is made from.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The progress of each slot, in the order of the graph's nodes.
    pub slots: Vec<SlotProgress>,
    /// The children of the owner.
    pub children: BTreeMap<ChildId, Child>,
    /// The children whose deletion or labels were refused in this pass, and why.
    pub refused: BTreeMap<ChildId, String>,
    /// The readiness of objects that `external` slots wait for, as far as they exist.
    pub external: BTreeMap<ChildId, Readiness>,
}

impl fmt::Display for ChildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        match namespace {
            Some(namespace) => write!(f, "{resource} `{namespace}/{name}`"),
            None => write!(f, "{resource} `{name}`"),
        }
    }
}
