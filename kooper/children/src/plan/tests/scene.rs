//! States for tests of single plans.

use std::sync::Arc;

use super::super::{Cause, Plan, Step, plan};
use crate::graph::{Flags, Graph, Recreate, SlotSpec};
use crate::observed::{Child, ChildId, Observed, Owner, Run, SlotLabel, SlotProgress, Write};
use crate::readiness::Readiness;

pub(super) const NONE: Flags = Flags {
    once: false,
    keep: false,
    prune: false,
    recreate: None,
    adopt: false,
    optional: false,
    external: false,
    not_ready: false,
};
pub(super) const ONCE: Flags = Flags { once: true, ..NONE };
pub(super) const KEEP: Flags = Flags { keep: true, ..NONE };
pub(super) const PRUNE: Flags = Flags { prune: true, ..NONE };
pub(super) const RECREATE: Flags = Flags { recreate: Some(Recreate::Foreground), ..NONE };

/// A state that is put together step by step.
pub(super) struct Scene {
    pub(super) graph: Graph,
    pub(super) owner: Owner,
    pub(super) observed: Observed,
}

impl Scene {
    pub(super) fn new(slots: Vec<SlotSpec>) -> Self {
        let observed = Observed { slots: vec![SlotProgress::default(); slots.len()], ..Observed::default() };
        Self { graph: Graph::new(slots).unwrap(), owner: Owner::default(), observed }
    }

    /// A ready child of a slot.
    pub(super) fn child(mut self, name: &str, slot: &str, depth: u32) -> Self {
        let child = ready_child(format!("uid of {name}").into(), "7".into(), Some(label(slot, depth)));
        self.observed.children.insert(id(name), child);
        self
    }

    pub(super) fn change(mut self, name: &str, change: impl FnOnce(&mut Child)) -> Self {
        change(self.observed.children.get_mut(&id(name)).unwrap());
        self
    }

    /// The function of a slot has returned these children.
    pub(super) fn returned(mut self, slot: usize, desired: &[(&str, Write)]) -> Self {
        let desired = desired.iter().map(|(name, write)| (id(name), write.clone())).collect();
        self.observed.slots[slot] = SlotProgress { run: Run::Returned, desired, ..SlotProgress::default() };
        self
    }

    pub(super) fn run(mut self, slot: usize, run: Run) -> Self {
        self.observed.slots[slot].run = run;
        self
    }

    /// The owner is being deleted, and its children in waves.
    pub(super) fn while_deleting(mut self) -> Self {
        self.owner = Owner { is_terminating: true, is_ordered: true };
        self
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.owner, &self.graph, &self.observed)
    }

    pub(super) fn steps(&self) -> Vec<String> {
        self.plan().steps.iter().map(shown).collect()
    }
}

fn shown(step: &Step) -> String {
    match step {
        Step::Call { slot } => format!("call {slot}"),
        Step::Apply { child, label, .. } => format!("apply {} as {} {}", child.name, label.slot, label.depth),
        Step::Label { child, label, .. } => format!("label {} as {}", child.name, label.slot),
        Step::Delete { child, version, cause, .. } => {
            format!("{} {} at {}", named(*cause), child.name, version.as_deref().unwrap_or("any version"))
        }
        Step::Release { child, .. } => format!("release {}", child.name),
    }
}

fn named(cause: Cause) -> String {
    match cause {
        Cause::Prune => "prune".to_owned(),
        Cause::Recreate(_) => "recreate".to_owned(),
        Cause::Wave(depth) => format!("wave {depth}:"),
    }
}

/// A child that is ready, and nothing else.
pub(super) fn ready_child(uid: Arc<str>, version: Arc<str>, label: Option<SlotLabel>) -> Child {
    Child {
        uid,
        version,
        label,
        readiness: Readiness::Ready,
        is_terminating: false,
        is_unreadable: false,
        is_kept: false,
        is_protected: false,
        is_apart: false,
        is_elsewhere: false,
        is_foreign: false,
        is_outdated: false,
    }
}

pub(super) fn chain(flags: Flags) -> Scene {
    Scene::new(vec![slot("config", &[], flags), slot("web", &["config"], NONE)])
}

pub(super) fn applied() -> Write {
    Write::Applied
}

pub(super) fn slot(name: &str, inputs: &[&str], flags: Flags) -> SlotSpec {
    let inputs = inputs.iter().map(|&name| name.to_owned()).collect();
    let (name, kind, resource) = (name.to_owned(), "ConfigMap".to_owned(), "configmaps".into());
    SlotSpec { name, kind, resource, inputs, flags, ..SlotSpec::default() }
}

pub(super) fn id(name: &str) -> ChildId {
    ChildId { resource: "configmaps".into(), namespace: None, name: name.into() }
}

pub(super) fn label(slot: &str, depth: u32) -> SlotLabel {
    SlotLabel { slot: slot.into(), depth, keep: false }
}

pub(super) fn waiting() -> Readiness {
    Readiness::Waiting("it starts".to_owned())
}
