//! The slots of a controller as a graph: which depend on which, and how deep each is.

mod diagram;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::observed::{Child, ChildId, SlotLabel};

/// The number of children that a slot's function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Returns {
    /// Always one: `T`.
    #[default]
    One,
    /// One or none: `Option<T>`.
    Maybe,
    /// Any number: `Vec<T>`.
    Many,
}

/// The replacement of a child whose immutable field would have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recreate {
    /// Its dependents are deleted with it, and before it is gone.
    Foreground,
    /// Its dependents are kept, such as the pods of a StatefulSet.
    Orphan,
}

/// The flags of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Created once, and not changed afterwards, apart from its labels and the version in its owner reference.
    pub once: bool,
    /// Never pruned, and released when the owner is deleted.
    pub keep: bool,
    /// Pruned, also where the kind is kept by default.
    pub prune: bool,
    /// Deleted and created again if an immutable field has to change.
    pub recreate: Option<Recreate>,
    /// An object without a controlling owner is taken over.
    pub adopt: bool,
    /// Skipped while its kind is not installed.
    pub optional: bool,
    /// Awaited, and never written.
    pub external: bool,
    /// Not counted for the owner's `Ready`.
    pub not_ready: bool,
}

/// A slot as it was declared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotSpec {
    /// Its name, which is that of the function.
    pub name: String,
    /// The kind of its children, for messages and diagrams.
    pub kind: String,
    /// Their resource, as in [`ChildId`].
    pub resource: Arc<str>,
    /// The slots whose children the function takes.
    pub inputs: Vec<String>,
    /// The slots that are ready before a child of this one is created.
    pub after: Vec<String>,
    /// The number of children.
    pub returns: Returns,
    /// Its flags.
    pub flags: Flags,
}

/// A slot within its graph.
#[derive(Debug, Clone)]
pub struct Node {
    /// The slot as it was declared.
    pub spec: SlotSpec,
    pub(crate) inputs: Vec<usize>,
    pub(crate) after: Vec<usize>,
    /// All slots that depend on it, directly or not.
    pub(crate) dependents: Vec<usize>,
    /// The label of its children, with its depth: the length of the longest way from a slot that depends on none.
    pub(crate) label: SlotLabel,
}

/// A kind whose children may be of a slot that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousKind {
    /// The kind, for diagrams.
    pub kind: String,
    /// The resource, as in [`ChildId`].
    pub resource: Arc<str>,
}

/// The slots of a controller. Dependencies exist, and there is no circle of them.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    /// The kinds of which children of unknown slots are pruned.
    previous: Vec<PreviousKind>,
    /// The indexes of the slots; each comes after those that it depends on.
    order: Vec<usize>,
}

/// A mistake in the declaration of slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Two slots have the same name.
    #[error("two slots have the name `{0}`: list each function once")]
    Duplicate(String),
    /// A slot depends on one of two slots whose functions have the same type.
    #[error("a slot depends on `{one}` or `{other}`, whose functions have the same type: write two functions")]
    SameFunction {
        /// A slot.
        one: String,
        /// The other slot.
        other: String,
    },
    /// Two slots return different types of one resource. Children in the cache are decoded as one of them.
    #[error("the slots `{one}` and `{other}` return different types for {resource}: return the same type from both")]
    DifferentTypes {
        /// A slot.
        one: String,
        /// The other slot.
        other: String,
        /// The resource, such as `deployments.apps`.
        resource: String,
    },
    /// A slot depends on one that is not declared.
    #[error("the slot `{slot}` depends on `{unknown}`, which is not declared: add it to the children")]
    Unknown {
        /// The slot.
        slot: String,
        /// The name that is not declared.
        unknown: String,
    },
    /// Slots wait for each other.
    #[error("the slots {} wait for each other: remove one of these dependencies", quoted(.0))]
    Cyclic(Vec<String>),
    /// The status of the owner has a field under another name.
    #[error(
        "the status of the owner is serialized without `{0}`: add `#[serde(rename_all = \"camelCase\")]` to its type"
    )]
    Status(&'static str),
    /// Two flags contradict each other.
    #[error("the slot `{slot}` cannot be both `{one}` and `{other}`: remove one of them")]
    Contradiction {
        /// The slot.
        slot: String,
        /// A flag.
        one: &'static str,
        /// The flag that contradicts it.
        other: &'static str,
    },
}

impl Flags {
    /// Returns whether an obsolete child stays without `keep`.
    pub(crate) fn keeps(&self, child: &Child) -> bool {
        child.is_protected || child.is_kept && !self.prune
    }

    /// The flags that are set, as they are written.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let recreate = match self.recreate {
            Some(Recreate::Foreground) => "recreate",
            Some(Recreate::Orphan) => "recreate(orphan)",
            None => "",
        };
        let names = [
            (self.once, "once"),
            (self.keep, "keep"),
            (self.prune, "prune"),
            (self.recreate.is_some(), recreate),
            (self.adopt, "adopt"),
            (self.optional, "optional"),
            (self.external, "external"),
            (self.not_ready, "not_ready"),
        ];
        names.into_iter().filter(|(set, _)| *set).map(|(_, name)| name)
    }

    /// The first two flags that contradict each other.
    fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        let pairs = [
            (self.once && self.recreate.is_some(), ("once", "recreate")),
            (self.keep && self.prune, ("keep", "prune")),
            (self.keep && self.recreate.is_some(), ("keep", "recreate")),
            (self.external && self.once, ("external", "once")),
            (self.external && self.keep, ("external", "keep")),
            (self.external && self.prune, ("external", "prune")),
            (self.external && self.recreate.is_some(), ("external", "recreate")),
            (self.external && self.adopt, ("external", "adopt")),
        ];
        pairs.into_iter().find(|(both, _)| *both).map(|(_, pair)| pair)
    }
}

impl Graph {
    /// Checks the slots and orders them.
    ///
    /// # Errors
    /// If a name is declared twice or not at all, if slots wait for each other, or if flags contradict each other.
    pub fn new(slots: Vec<SlotSpec>) -> Result<Self, GraphError> {
        let mut by_name = HashMap::new();
        for (index, slot) in slots.iter().enumerate() {
            if by_name.insert(slot.name.as_str(), index).is_some() {
                return Err(GraphError::Duplicate(slot.name.clone()));
            }
            if let Some((one, other)) = slot.flags.contradiction() {
                return Err(GraphError::Contradiction { slot: slot.name.clone(), one, other });
            }
        }
        let find = |slot: &SlotSpec, names: &[String]| -> Result<Vec<usize>, GraphError> {
            let find = |name: &String| by_name.get(name.as_str()).copied();
            let unknown = |name: &String| GraphError::Unknown { slot: slot.name.clone(), unknown: name.clone() };
            names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
        };
        let mut edges = Vec::new();
        for slot in &slots {
            edges.push((find(slot, &slot.inputs)?, find(slot, &slot.after)?));
        }
        let nodes = slots.into_iter().zip(edges);
        let nodes = nodes.map(|(spec, (inputs, after))| {
            let label = SlotLabel { slot: spec.name.as_str().into(), depth: 0, keep: spec.flags.keep };
            Node { spec, inputs, after, dependents: Vec::new(), label }
        });
        let mut graph = Self { nodes: nodes.collect(), previous: Vec::new(), order: Vec::new() };
        graph.sort()?;
        Ok(graph)
    }

    /// Sets the kinds of which children are pruned if their labels name no slot of their kind.
    #[must_use]
    pub fn with_previous(mut self, kinds: Vec<PreviousKind>) -> Self {
        for kind in kinds {
            if !self.prunes(&kind.resource) {
                self.previous.push(kind);
            }
        }
        self
    }

    fn sort(&mut self) -> Result<(), GraphError> {
        while self.order.len() < self.nodes.len() {
            let is_next = |&slot: &usize| {
                !self.order.contains(&slot) && self.nodes[slot].depends_on().all(|other| self.order.contains(&other))
            };
            let Some(slot) = (0..self.nodes.len()).find(is_next) else {
                return Err(GraphError::Cyclic(self.circle()));
            };
            let depth = self.nodes[slot].depends_on().map(|other| self.nodes[other].label.depth + 1).max();
            self.nodes[slot].label.depth = depth.unwrap_or_default();
            self.order.push(slot);
        }
        for &slot in self.order.iter().rev() {
            let (direct, all): (Vec<_>, Vec<_>) = self
                .order
                .iter()
                .filter(|&&other| self.nodes[other].depends_on().any(|one| one == slot))
                .map(|&other| (other, self.nodes[other].dependents.clone()))
                .unzip();
            let mut dependents: Vec<_> = direct.into_iter().chain(all.into_iter().flatten()).collect();
            dependents.sort_unstable();
            dependents.dedup();
            self.nodes[slot].dependents = dependents;
        }
        Ok(())
    }

    /// The names of a circle, of those slots that could not be ordered.
    fn circle(&self) -> Vec<String> {
        let is_left = |slot: &usize| !self.order.contains(slot);
        let mut way: Vec<usize> = (0..self.nodes.len()).find(is_left).into_iter().collect();
        while let Some(next) = way.last().and_then(|&last| self.nodes[last].depends_on().find(is_left)) {
            if let Some(start) = way.iter().position(|&slot| slot == next) {
                way.drain(..start);
                break;
            }
            way.push(next);
        }
        way.into_iter().map(|slot| self.nodes[slot].spec.name.clone()).collect()
    }

    /// The slots, in the order of their declaration.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The kinds of which children are pruned if their labels name no slot of their kind.
    #[must_use]
    pub fn previous(&self) -> &[PreviousKind] {
        &self.previous
    }

    /// Returns whether children of this resource are pruned if their labels name no slot.
    pub(crate) fn prunes(&self, resource: &str) -> bool {
        self.previous.iter().any(|kind| *kind.resource == *resource)
    }

    /// The indexes of the slots; each comes after those that it depends on.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The index of the slot of this name, if its children are of this resource. A slot that had another kind before
    /// was removed, and one of the same name was added.
    pub(crate) fn find(&self, resource: &str, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.spec.name == name && *node.spec.resource == *resource)
    }

    /// The index of the slot that a child was applied for.
    pub(crate) fn slot_of(&self, id: &ChildId, child: &Child) -> Option<usize> {
        self.find(&id.resource, &child.label.as_ref()?.slot)
    }
}

impl Node {
    fn depends_on(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().chain(&self.after).copied()
    }

    /// The length of the longest way from a slot that depends on none. Children are deleted from the deepest on.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.label.depth
    }
}

impl fmt::Display for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "",
            Self::Maybe => "?",
            Self::Many => "*",
        })
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
