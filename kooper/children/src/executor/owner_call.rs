//! A call without the types of its owner and state: what needs neither of them is compiled once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper_runtime::internal::error::public_chain;
use kooper_runtime::{BoxError, ControllerContext, ObjectKey};

use super::progress::Progress;
use super::{StepResult, WaitError, WriteError};
use crate::children::SlotChildren;
use crate::function::AnyObject;
use crate::graph::Graph;
use crate::memory::{KnownChildren, SlotMemory, address};
use crate::observed::{ChildId, Observed, Run, SlotProgress, Write};
use crate::plan::{Plan, SlotState, provided};
use crate::record::{ChildObject, Found};
use crate::typed::{SlotOutput, UntypedSlot};

/// Calls the function of a slot.
pub(super) type CallSlot<'a> = dyn Fn(&Progress, usize) -> Result<SlotOutput, BoxError> + 'a;

pub(super) struct OwnerCall<'a> {
    pub(super) controller: &'a ControllerContext,
    pub(super) key: &'a ObjectKey,
    pub(super) owner: &'a ObjectMeta,
    pub(super) graph: &'a Graph,
    pub(super) slots: Vec<&'a dyn UntypedSlot>,
    pub(super) memory: Arc<SlotMemory>,
}

impl OwnerCall<'_> {
    /// The state before the first step.
    pub(super) fn observed(
        &self,
        slots: Vec<SlotProgress>,
        existing: Vec<Found>,
        known: &KnownChildren,
        is_ordered: bool,
    ) -> Progress {
        let mut observed = Observed { slots, ..Observed::default() };
        let is_known =
            |(.., object): &Found| object.cached().is_some_and(|object| known.get(address(object)).is_some());
        if existing.len() != known.len() || !existing.iter().all(is_known) {
            let read = |(_, child, object): &Found| {
                let object = object.cached()?;
                Some((address(object), (Arc::downgrade(object), child.clone())))
            };
            self.memory.read(self.key, Arc::new(existing.iter().filter_map(read).collect()));
        }
        let mut objects = BTreeMap::new();
        for (id, mut child, object) in existing {
            if let Some(slot) = self.graph.slot_of(&id, &child).filter(|_| !child.is_terminating) {
                let own = self.slots[slot].judge(&object);
                child.readiness = own.ok().flatten().unwrap_or(child.readiness);
            }
            observed.children.insert(id.clone(), child);
            objects.insert(id, object);
        }
        if is_ordered {
            self.memory.expectations.forget(self.key, |id| observed.children.contains_key(id));
        }
        Progress { observed, objects, wanted: BTreeMap::new(), error: None, pause: None, has_deleted: false }
    }

    /// Notes the result of a step.
    pub(super) fn note(&self, progress: &mut Progress, done: StepResult, call: &CallSlot<'_>) {
        match done {
            StepResult::Called(slot, result) => self.called(progress, slot, result, call),
            StepResult::Written(slot, id, result) => {
                let write = match result {
                    Ok(None) => {
                        if let Some(child) = progress.objects.get(&id).and_then(ChildObject::cached) {
                            self.memory.settle((self.key, slot), child);
                        }
                        Write::Applied
                    }
                    Ok(Some(found)) => {
                        self.corrected(progress, slot, &found);
                        let (id, mut child, object) = found;
                        // It is decoded.
                        let own = self.slots[slot].judge(&object).ok().flatten().filter(|_| !child.is_terminating);
                        child.readiness = own.unwrap_or(child.readiness);
                        progress.found((id, child, object));
                        Write::Applied
                    }
                    Err(WriteError::Immutable(error)) => {
                        let recreates = self.graph.nodes()[slot].spec.flags.recreate.is_some();
                        let is_protected = progress.observed.children.get(&id).is_some_and(|child| child.is_protected);
                        let replaces = recreates && !is_protected;
                        Write::Immutable(if replaces { public_chain(&*error) } else { progress.stall(error) })
                    }
                    Err(WriteError::Invalid(error)) => Write::Invalid(progress.stall(error)),
                    Err(WriteError::Other(error)) => Write::Refused(progress.fail(error)),
                };
                progress.written(&id, &write);
            }
            StepResult::Labelled(id, label, result) => match result {
                Ok((is, version)) if is.as_ref() == Some(&label) => {
                    progress.written(&id, &Write::Applied);
                    if let Some(child) = progress.observed.children.get_mut(&id) {
                        (child.label, child.version, child.is_outdated) = (is, version, false);
                    }
                }
                Ok(_) => {
                    let lost = format!("the labels of {id} were set, and are not there: a policy may remove them");
                    progress.refuse(id, lost.into());
                }
                Err(error) => progress.refuse(id, error),
            },
            StepResult::Deleted(id, Ok(())) => {
                progress.has_deleted = true;
                if let Some(child) = progress.observed.children.get_mut(&id) {
                    child.is_terminating = true;
                }
            }
            StepResult::Deleted(id, Err(error)) => progress.refuse(id, error),
            StepResult::Released(id, result) => {
                if let Err(error) = result {
                    progress.fail(error);
                }
                progress.observed.children.remove(&id);
            }
        }
    }

    fn called(&self, progress: &mut Progress, slot: usize, result: Result<SlotOutput, BoxError>, call: &CallSlot<'_>) {
        let run = match result {
            Ok(SlotOutput::Children(children)) => {
                let mut names = BTreeSet::new();
                let taken = children.iter().find(|(id, _)| progress.wanted.contains_key(id) || !names.insert(id));
                if let Some((id, _)) = taken {
                    let problem =
                        format!("{id} is also a child of another slot, or returned twice: give it another name");
                    Run::Failed(progress.fail(problem.into()))
                } else if let Some((pause, why)) = self.unstable(progress, slot, &children, call) {
                    progress.pause = progress.pause.into_iter().chain([pause]).min();
                    Run::Waits(why)
                } else {
                    progress.observed.slots[slot].desired = self.desired(progress, slot, &children);
                    progress.wanted.extend(children);
                    Run::Returned
                }
            }
            Ok(SlotOutput::External(id, found)) => {
                progress.observed.slots[slot].desired = vec![(id.clone(), Write::Applied)];
                if let Some((readiness, object)) = found {
                    progress.observed.external.insert(id.clone(), readiness);
                    progress.objects.insert(id, ChildObject::Decoded(object));
                }
                Run::Returned
            }
            Err(error) => match error.downcast::<WaitError>() {
                Ok(wait) => Run::Waits(wait.0),
                Err(error) => Run::Failed(progress.fail(error)),
            },
        };
        progress.observed.slots[slot].run = run;
    }

    /// The children that the function of a slot has returned. One that is known to be like this is not applied again.
    fn desired(&self, progress: &Progress, slot: usize, children: &[(ChildId, AnyObject)]) -> Vec<(ChildId, Write)> {
        let label = &self.graph.nodes()[slot].label;
        let existing = |id: &ChildId| {
            let child = progress.observed.children.get(id)?;
            let is_own = !child.is_terminating && child.label.as_ref() == Some(label);
            progress.objects.get(id).filter(|_| is_own).and_then(ChildObject::cached)
        };
        let cached = children.iter().map(|(id, _)| existing(id));
        let settled = self.memory.settled((self.key, slot), cached);
        let write = |is_settled: bool| if is_settled { Write::Applied } else { Write::Pending };
        children.iter().zip(settled).map(|((id, _), is_settled)| (id.clone(), write(is_settled))).collect()
    }

    /// The children of all slots at the end of a pass.
    pub(super) fn children(&self, plan: &Plan, progress: &Progress) -> Vec<SlotChildren> {
        for child in &plan.blocking {
            tracing::debug!(%child, "waiting for its deletion");
        }
        let children = self.slots.iter().enumerate().map(|(index, slot)| {
            let (ids, spec) = (provided(self.graph, &progress.observed, index), &self.graph.nodes()[index].spec);
            SlotChildren {
                id: slot.id().id,
                name: spec.name.clone(),
                state: plan.slots.get(index).cloned().unwrap_or(SlotState::Pending),
                counts: !spec.flags.not_ready,
                objects: ids.into_iter().filter_map(|id| progress.objects.get(id).cloned()).collect(),
            }
        });
        children.collect()
    }
}
