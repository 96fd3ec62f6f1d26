//! Reports about a pass: the log, Kubernetes Events and the counts of the metric, each on transitions only.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kooper_access::extract::Context;
use kooper_runtime::metrics::Gauge;
use kooper_runtime::{Kind, Note};
use kube::ResourceExt;
use serde_json::Value;
use tokio::time::Instant;

use super::owner_call::{CallSlot, OwnerCall};
use super::progress::Progress;
use crate::function::AnyObject;
use crate::labels::ORPHANS;
use crate::memory::{Inputs, Loop, LoopVerdict, ORPHAN, SlotMemory, digest};
use crate::observed::{ChildId, Owner};
use crate::plan::{Plan, SlotState, provided};
use crate::record::{ChildObject, Found, owner};
use crate::typed::SlotOutput;

impl OwnerCall<'_> {
    /// Returns for how long the children of a slot are not applied because their bodies keep changing, and why.
    pub(super) fn unstable(
        &self,
        progress: &Progress,
        slot: usize,
        children: &[(ChildId, AnyObject)],
        call: &CallSlot<'_>,
    ) -> Option<(Duration, String)> {
        let digest = self.digest(slot, children);
        let is_as_wanted = |child: &ChildId| {
            let wanted = children.iter().find(|(id, _)| id == child).map(|(_, wanted)| wanted);
            let both = progress.objects.get(child).zip(wanted);
            both.is_some_and(|(child, wanted)| child.get().is_ok_and(|child| self.slots[slot].has_all(&child, wanted)))
        };
        let name = &self.graph.nodes()[slot].spec.name;
        // Status changes are no reason to leave a child alone.
        let version = |id: &ChildId| {
            let child = progress.observed.children.get(id)?;
            let is_labelled = child.label.as_ref().is_some_and(|label| *label.slot == **name);
            (!is_labelled || !is_as_wanted(id)).then_some(&*child.version)
        };
        let (memory, of, now) = (&self.memory, (self.key, slot), Instant::now());
        let inputs = || self.inputs(progress, slot);
        let verdict = match memory.returned(of, digest, inputs, version, now) {
            LoopVerdict::Ask => {
                let is_same =
                    |again| matches!(again, SlotOutput::Children(again) if self.digest(slot, &again) == digest);
                if call(progress, slot).is_ok_and(is_same) {
                    memory.explained(of, now);
                    return None;
                }
                memory.pause(of, now)
            }
            verdict => verdict,
        };
        let LoopVerdict::Pause(pause, what, is_new) = verdict else { return None };
        let why = match what {
            Loop::Bodies => {
                "its children keep changing, although its inputs do not: they are applied again after ten minutes"
            }
            Loop::Children => {
                "another client keeps changing what was applied: its children are applied again after ten minutes"
            }
        };
        if is_new {
            self.event(true, "Unstable", format!("{name}: {why}"));
            tracing::warn!(slot = name, "{why}");
        }
        Some((pause, why.to_owned()))
    }

    /// Notes a write that changed a child which existed.
    pub(super) fn corrected(&self, progress: &Progress, slot: usize, (id, now, object): &Found) {
        let before = progress.observed.children.get(id).filter(|before| before.uid == now.uid);
        if before.is_some_and(|before| before.version != now.version)
            && let Some((before, wanted)) = progress.objects.get(id).zip(progress.wanted.get(id))
            && let (Ok(before), Ok(now_is)) = (before.get(), object.get())
            && self.slots[slot].is_corrected(&before, wanted, &now_is)
        {
            self.memory.corrected((self.key, slot), id, &now.version, Instant::now());
        }
    }

    /// Warns that Kubernetes deletes the children of an owner at once.
    pub(super) fn warn_unordered(&self) {
        let is_foreground = |finalizer: &String| finalizer == "foregroundDeletion";
        if self.owner.finalizers.iter().flatten().any(is_foreground) && self.memory.unordered(self.key) {
            let text = "it is deleted in the foreground: Kubernetes deletes its children at once, in any order";
            self.event(true, "Unordered", text.to_owned());
        }
    }

    /// A digest of the children that the function of a slot has returned.
    fn digest(&self, slot: usize, children: &[(ChildId, AnyObject)]) -> u64 {
        let mut bytes: Vec<u8> = Vec::new();
        if self.graph.nodes()[slot].spec.flags.once {
            // A function of what is created once may return other values each time, in another order.
            let names: BTreeSet<_> = children.iter().map(|(id, _)| id).collect();
            names.into_iter().for_each(|id| drop(write!(bytes, "{id}")));
        } else {
            children.iter().for_each(|(_, child)| self.slots[slot].write(child, &mut bytes));
        }
        digest(&bytes)
    }

    /// The arguments of the last call of a slot's function.
    fn inputs(&self, progress: &Progress, slot: usize) -> Inputs {
        let (meta, mut bytes) = (self.owner, Vec::new());
        let _ = serde_json::to_writer(&mut bytes, &(meta.generation, &meta.labels, &meta.annotations));
        let object = self.controller.own.get(self.key).and_then(|object| object.decode::<Value>().ok());
        let mut object = object.unwrap_or_default();
        object["metadata"].take();
        let mut status = object["status"].take();
        // These are written in each pass, and no reason for other children.
        if let Some(status) = status.as_object_mut() {
            status.retain(|field, _| !["conditions", "observedGeneration"].contains(&&**field));
        }
        let _ = serde_json::to_writer(&mut bytes, &object);
        let mut of_status = Vec::new();
        let _ = serde_json::to_writer(&mut of_status, &status);
        for &input in &self.graph.nodes()[slot].inputs {
            for id in provided(self.graph, &progress.observed, input) {
                if let Some(child) = progress.observed.children.get(id) {
                    let _ = write!(bytes, "{id} {} {}", child.uid, child.version);
                } else if let Some(Ok(external)) = progress.objects.get(id).map(ChildObject::get) {
                    self.slots[input].write_desired(&external, &mut bytes);
                    self.slots[input].write(&external, &mut of_status);
                }
            }
        }
        Inputs {
            owner: digest(meta.uid.as_deref().unwrap_or_default().as_bytes()),
            digest: digest(&bytes),
            status: digest(&of_status),
            reads_more: self.slots[slot].reads_more(),
        }
    }

    /// Notes the states of the slots, and tells what has changed.
    pub(super) fn remember(&self, owner: &Owner, plan: &Plan, progress: &Progress) {
        let (memory, key) = (&self.memory, self.key);
        memory.gauges.get_or_init(|| self.register());
        if owner.is_terminating {
            return memory.forget(key);
        }
        let name = |slot: usize| &*self.graph.nodes()[slot].spec.name;
        for (slot, is_new) in memory.states(key, &plan.slots) {
            let state = &plan.slots[slot];
            match state.reason() {
                // A reason may be a count that rises.
                Some(why) if !is_new => tracing::debug!(slot = name(slot), state = state.name(), "{why}"),
                Some(why) => tracing::info!(slot = name(slot), state = state.name(), "{why}"),
                None => tracing::debug!(slot = name(slot), state = state.name(), "the slot has another state"),
            }
        }
        let is_unwanted =
            |id: &ChildId| progress.observed.children.contains_key(id) && !progress.wanted.contains_key(id);
        for (slot, id) in memory.kept(key, &plan.kept, is_unwanted) {
            let text = match self.graph.find(&id.resource, slot) {
                Some(_) => format!(
                    "{slot}: {id} is no longer returned by its function, and is kept: write `prune` to delete such children, \
                     and remove the annotation `kooper.rs/keep` if there is one"
                ),
                None => format!(
                    "{slot}: the slot was removed from the program, and {id} is kept: delete it if it is not needed"
                ),
            };
            self.event(false, "Kept", text);
        }
    }

    /// Registers a gauge for each slot and state.
    fn register(&self) {
        let controller = self.controller;
        for (index, node) in self.graph.nodes().iter().enumerate() {
            for state in SlotState::NAMES {
                let gauge = Gauge::ChildState { slot: node.spec.name.clone(), state };
                let memory = self.memory.clone();
                #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
                let read = move || memory.count(index, state) as f64;
                if let Err(error) = controller.metrics.register_gauge(&controller.controller, gauge, Box::new(read)) {
                    tracing::debug!("a metric is missing: {error}");
                }
            }
        }
    }

    fn event(&self, warning: bool, reason: &str, text: String) {
        let (kind, owner) = (&self.controller.kind, self.owner);
        let regarding = ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind.clone()),
            name: owner.name.clone(),
            namespace: owner.namespace.clone(),
            uid: owner.uid.clone(),
            ..ObjectReference::default()
        };
        let mut note = Note::warning(regarding, reason, "Apply", text);
        note.warning = warning;
        self.controller.events.publish(note);
    }
}

/// Returns whether the children outlive their owner, after `kubectl delete --cascade=orphan`. The garbage collector removes
/// the finalizer that says so, and the next pass, after a failed or a repeated cleanup, sees an owner without it.
pub(super) fn is_orphaning<P: Kind, S>(context: &Context<P, S>) -> bool {
    let (owner, memory) = (owner(context), memory(context));
    let uid = owner.uid().unwrap_or_default();
    if owner.finalizers().iter().any(|finalizer| finalizer == ORPHAN) {
        memory.orphans(context.key(), &uid);
    }
    is_noted(&*owner) || memory.is_orphaning(context.key(), &uid)
}

/// Returns whether an owner has the note that its children outlive it.
pub(super) fn is_noted(owner: &impl ResourceExt) -> bool {
    owner.annotations().get(ORPHANS).is_some_and(|uid| owner.meta().uid.as_ref() == Some(uid))
}

pub(super) fn memory<P, S>(context: &Context<P, S>) -> Arc<SlotMemory> {
    context.controller().extensions.get()
}
