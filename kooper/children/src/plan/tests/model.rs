//! A small cluster that plans are executed in. It checks each write against what the functions would return.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::mistakes::{self, Mistake};
use super::super::{Cause, Plan, Step, plan, provided};
use super::histories::{APART, EDITED, HistoryEvent, KEPT, name};
use super::scene::ready_child;
use super::stored::{Names, Stored, says_keep};
use crate::graph::{Flags, Graph, Node, Returns, SlotSpec};
use crate::observed::{Child, ChildId, Observed, Owner, Run, SlotLabel, SlotProgress, Write};
use crate::readiness::Readiness;

pub(super) type Checked = Result<(), TestCaseError>;

#[derive(Debug, Clone, Default)]
struct Function {
    wants: u8,
    fails: bool,
    waits: bool,
    refuses: bool,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) graph: Graph,
    functions: Vec<Function>,
    objects: BTreeMap<ChildId, Stored>,
    released: BTreeSet<ChildId>,
    /// The objects of other clients, without an owner.
    free: BTreeSet<ChildId>,
    /// The kinds that are not installed.
    absent: BTreeSet<&'static str>,
    last: u32,
}

impl World {
    pub(super) fn new(graph: &Graph) -> Self {
        let functions = vec![Function::default(); graph.nodes().len()];
        let (objects, released, free) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { graph: graph.clone(), functions, objects, released, free, absent: BTreeSet::new(), last: 0 }
    }

    /// A world where nothing has happened yet, with the same owner.
    pub(super) fn fresh(&self) -> Self {
        let functions = self.functions.iter().map(|function| Function { wants: function.wants, ..Function::default() });
        Self { functions: functions.collect(), ..Self::new(&self.graph) }
    }

    pub(super) fn happens(&mut self, event: &HistoryEvent) -> Checked {
        let count = self.graph.nodes().len();
        match *event {
            HistoryEvent::Wants(slot, wants) => self.functions[slot % count].wants = wants,
            HistoryEvent::Fails(slot, fails) => self.functions[slot % count].fails = fails,
            HistoryEvent::Waits(slot, waits) => self.functions[slot % count].waits = waits,
            HistoryEvent::Refuses(slot, refuses) => self.functions[slot % count].refuses = refuses,
            HistoryEvent::Ready(slot, is_ready) => self.become_ready(Some(slot % count), is_ready),
            HistoryEvent::Deleted(index) => {
                if let Some((_, object)) = self.objects.iter_mut().nth(index) {
                    object.child.is_terminating = true;
                    object.child.readiness = Readiness::Waiting("it is being deleted".to_owned());
                }
            }
            HistoryEvent::Created(slot, number) => {
                self.functions[slot % count].wants = number;
                let id = self.id(slot % count, number);
                if !self.objects.contains_key(&id) && !self.is_absent(slot % count) {
                    self.free.insert(id);
                }
            }
            HistoryEvent::Edited(index, edit) => {
                self.last += 1;
                if let Some((id, object)) = self.objects.iter_mut().nth(index) {
                    object.child.version = self.last.to_string().into();
                    object.edit(&self.graph, id, edit);
                }
            }
            HistoryEvent::Installed(kind, true) => drop(self.absent.remove(kind)),
            HistoryEvent::Installed(kind, false) => {
                self.absent.insert(kind);
                self.objects.retain(|id, _| *id.resource != *kind);
                self.free.retain(|id| *id.resource != *kind);
            }
            HistoryEvent::Collected => self.objects.retain(|_, object| !object.child.is_terminating),
            HistoryEvent::Pass(steps) => return self.pass(&Owner::default(), steps).map(drop),
        }
        Ok(())
    }

    fn become_ready(&mut self, slot: Option<usize>, is_ready: bool) {
        for (id, object) in &mut self.objects {
            let is_of = slot.is_none_or(|slot| id.name.starts_with(&format!("{}-", name(slot))));
            let readiness = match is_ready {
                true => Readiness::Ready,
                false => Readiness::Waiting("it starts".to_owned()),
            };
            let may_change = is_of && !object.child.is_terminating && !object.child.is_unreadable;
            if may_change && object.child.readiness != readiness {
                self.last += 1;
                object.child.version = self.last.to_string().into();
                object.child.readiness = readiness;
            }
        }
    }

    /// All trouble ends, and passes follow each other until nothing changes.
    pub(super) fn settle(&mut self) -> Checked {
        self.free.clear();
        self.absent.clear();
        for function in &mut self.functions {
            *function = Function { wants: function.wants, ..Function::default() };
        }
        let recreates = |id: &&ChildId| self.is_wanted(id) && self.flags(self.slot_of(id)).recreate.is_some();
        let unprotected: BTreeSet<_> = self.objects.keys().filter(recreates).cloned().collect();
        for (id, object) in &mut self.objects {
            object.child.is_unreadable = false;
            object.child.is_protected &= !unprotected.contains(id);
        }
        for _ in 0..40 {
            let before = self.objects.clone();
            self.pass(&Owner::default(), None)?;
            self.become_ready(None, true);
            self.happens(&HistoryEvent::Collected)?;
            if self.objects == before {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("it does not settle"))
    }

    /// The objects with their labels and references, without those that are kept although no slot wants them any more.
    /// A child that was created once keeps the references of its creation.
    pub(super) fn state(&self) -> BTreeMap<Arc<str>, (Option<SlotLabel>, Names)> {
        let wanted = self.objects.iter().filter(|(id, object)| !self.outlives_its_slot(id, object));
        let state = wanted.map(|(id, object)| {
            let refers = if self.flags(self.slot_of(id)).once { BTreeSet::new() } else { object.refers.clone() };
            (id.name.clone(), (object.child.label.clone(), refers))
        });
        state.collect()
    }

    /// Deletes the owner, and lets passes follow each other until the plan is done. The first ones end with the crashes
    /// of the history, and its edits happen again after them. Without `is_ordered` the children outlive the owner.
    pub(super) fn delete(&mut self, is_ordered: bool, history: &[HistoryEvent]) -> Checked {
        let owner = Owner { is_terminating: true, is_ordered };
        let mut crashes = history.iter().filter_map(|event| match event {
            HistoryEvent::Pass(crash) => *crash,
            _ => None,
        });
        let mut edits = history.iter().filter(|event| matches!(event, HistoryEvent::Edited(..)));
        if !is_ordered {
            self.happens(&HistoryEvent::Collected)?;
        }
        for round in 0..120 {
            let crash = crashes.next();
            let end = self.pass(&owner, crash)?;
            if crash.is_none() && end.steps.is_empty() && end.blocking.is_empty() {
                let is_left = |(id, object): &(&ChildId, &Stored)| {
                    !self.released.contains(*id) && !self.is_left_to_others(id, object)
                };
                prop_assert_eq!(self.objects.iter().filter(is_left).count(), 0, "left over: {:?}", self.objects);
                return Ok(());
            }
            prop_assert!(is_ordered || self.objects.values().all(|object| !object.child.is_terminating), "deleted");
            edits.next().map_or(Ok(()), |edit| self.happens(edit))?;
            if round % 2 == 1 {
                self.happens(&HistoryEvent::Collected)?;
            }
        }
        Err(TestCaseError::fail("the deletion does not end"))
    }

    /// Plans and executes until there are no steps, or until the crash.
    fn pass(&mut self, owner: &Owner, crash_after: Option<u8>) -> Result<Plan, TestCaseError> {
        let is_absent = |slot| self.is_absent(slot) && !Mistake::AbsenceUnread.is_planted();
        let progress = |slot| SlotProgress { is_absent: is_absent(slot), ..SlotProgress::default() };
        let mut observed = Observed { slots: (0..self.functions.len()).map(progress).collect(), ..Observed::default() };
        let mut left = crash_after.map_or(usize::MAX, usize::from);
        for _ in 0..50 {
            let children = self.objects.iter().filter(|(id, _)| !self.released.contains(*id));
            let observe = |(id, object): (&ChildId, &Stored)| Some((id.clone(), mistakes::observed(&object.child)?));
            observed.children = children.filter_map(observe).collect();
            let next = plan(owner, &self.graph, &observed);
            for step in &next.steps {
                if left == 0 {
                    return Ok(next);
                }
                left -= 1;
                self.execute(owner, step, &mut observed)?;
            }
            if next.steps.is_empty() {
                return Ok(next);
            }
        }
        Err(TestCaseError::fail("the pass does not end"))
    }

    fn execute(&mut self, owner: &Owner, step: &Step, observed: &mut Observed) -> Checked {
        match step {
            Step::Call { slot } => {
                prop_assert!(!self.is_absent(*slot), "s{} is called, and its kind is not installed", slot);
                for &input in &self.graph.nodes()[*slot].inputs {
                    for id in provided(&self.graph, observed, input) {
                        let decodes = self.objects.get(id).is_some_and(|object| !object.child.is_unreadable);
                        prop_assert!(decodes, "s{} takes {}, which does not decode", slot, id);
                    }
                }
                let function = &self.functions[*slot];
                let progress = &mut observed.slots[*slot];
                prop_assert_eq!(&progress.run, &Run::NotCalled, "it is called twice");
                progress.run = match function {
                    Function { fails: true, .. } => Run::Failed("it fails".to_owned()),
                    Function { waits: true, .. } => Run::Waits("it waits".to_owned()),
                    _ => Run::Returned,
                };
                if progress.run == Run::Returned {
                    progress.desired = self.wanted(*slot).into_iter().map(|id| (id, Write::Pending)).collect();
                }
            }
            Step::Apply { slot, child, label } => {
                let write = self.apply(*slot, child, label, observed)?;
                let desired = &mut observed.slots[*slot].desired;
                *desired.iter_mut().find(|(id, _)| id == child).map(|(_, write)| write).unwrap() = write;
            }
            Step::Label { child, label, .. } => {
                if let Some(object) = self.objects.get_mut(child) {
                    object.child.label = Some(label.clone());
                    (object.child.is_foreign, object.is_stray) = (false, false);
                }
            }
            Step::Delete { child, uid, version, cause } => self.remove(child, uid, version.as_deref(), *cause)?,
            Step::Release { child, .. } => {
                let released = &self.objects[child].child;
                prop_assert!(!released.is_foreign, "{} is of another controller", child);
                prop_assert!(!owner.is_ordered || self.is_kept(child, released), "{} is not kept", child);
                self.released.insert(child.clone());
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        slot: usize,
        child: &ChildId,
        label: &SlotLabel,
        observed: &Observed,
    ) -> Result<Write, TestCaseError> {
        let node = self.graph.nodes()[slot].clone();
        let refers: BTreeSet<_> = node
            .inputs
            .iter()
            .flat_map(|&input| provided(&self.graph, observed, input))
            .map(|id| id.name.clone())
            .collect();
        if self.functions[slot].refuses {
            return Ok(Write::Refused("it is refused".to_owned()));
        }
        self.last += 1;
        let version: Arc<str> = self.last.to_string().into();
        let label = (!Mistake::LabelLost.is_planted()).then(|| label.clone());
        let is_free = self.free.contains(child);
        if is_free && !node.spec.flags.adopt {
            return Ok(Write::Refused("it belongs to no owner".to_owned()));
        }
        let is_adopted = is_free || self.objects.get(child).is_some_and(|object| object.is_adopted);
        let is_kept = *child.resource == *KEPT || is_adopted && !Mistake::AdoptionForgotten.is_planted();
        match self.objects.get_mut(child) {
            Some(object) => {
                prop_assert!(!object.child.is_terminating, "{} is applied while it is being deleted", child);
                prop_assert!(!node.spec.flags.once, "{} is applied twice", child);
                let is_left = Mistake::EditLeft.is_planted() && object.refers.contains(EDITED);
                let refers = if is_left { object.refers.clone() } else { refers };
                if node.spec.flags.recreate.is_some() && object.refers != refers {
                    return Ok(Write::Immutable("its content is immutable".to_owned()));
                }
                let child = Child { label, is_kept, is_foreign: false, ..object.child.clone() };
                let mut applied = Stored { child, refers, is_stray: false, ..*object };
                if std::mem::take(&mut applied.child.is_unreadable) {
                    applied.child.readiness = Readiness::Waiting("it starts".to_owned());
                }
                if applied != *object {
                    applied.child.version = version;
                    *object = applied;
                }
            }
            None => {
                for &other in node.inputs.iter().chain(&node.after) {
                    self.check_ready(other, child)?;
                }
                let readiness = Readiness::Waiting("it starts".to_owned());
                let is_apart = *child.resource == *APART;
                let child_now = Child { readiness, is_kept, is_apart, ..ready_child(version.clone(), version, label) };
                self.free.remove(child);
                self.objects.insert(child.clone(), Stored { child: child_now, is_adopted, refers, is_stray: false });
            }
        }
        Ok(Write::Applied)
    }

    fn remove(&mut self, child: &ChildId, uid: &str, version: Option<&str>, cause: Cause) -> Checked {
        let (slot, object) = (self.slot_of(child), &self.objects[child]);
        prop_assert!(!self.flags(slot).keep, "{} is kept", child);
        prop_assert!(!object.child.is_protected, "{} has the annotation that keeps it", child);
        // It would be applied, too, if no immutable field had to change.
        let is_taken_over = matches!(cause, Cause::Recreate(_)) && self.is_wanted(child);
        prop_assert!(is_taken_over || !object.child.is_foreign, "{} is of another controller", child);
        match cause {
            Cause::Prune => {
                prop_assert!(!self.is_wanted(child), "{} is pruned, and is wanted", child);
                prop_assert!(!self.outlives_its_slot(child, object), "{} is pruned, and stays", child);
                let is_unknown = self.is_unknown(child, object);
                // It may be of any slot, and each may use it.
                for slot in (0..self.functions.len()).filter(|other| is_unknown || *other == slot) {
                    if !self.flags(slot).not_ready {
                        self.check_ready(slot, child)?;
                    }
                }
                let once = |id: &ChildId| self.flags(self.slot_of(id)).once;
                let refers = |(id, object): &(&ChildId, &Stored)| {
                    let counts = !once(id) && !self.outlives_its_slot(id, object);
                    counts && (is_unknown || !self.is_unknown(id, object)) && object.refers.contains(&child.name)
                };
                prop_assert_eq!(self.objects.iter().find(refers), None::<(&ChildId, &Stored)>, "{} is in use", child);
            }
            Cause::Recreate(_) => {
                prop_assert!(self.flags(slot).recreate.is_some());
                prop_assert!(self.is_wanted(child) || !object.is_stray, "{} may be of no slot", child);
            }
            Cause::Wave(depth) => {
                prop_assert_eq!(depth, self.wave(child, &object.child));
                let is_deeper = |(id, object): &(&ChildId, &Stored)| {
                    let stays = self.released.contains(*id) || self.is_kept(id, &object.child);
                    !stays && !self.is_left_to_others(id, object) && self.wave(id, &object.child) > depth
                };
                let deeper = self.objects.iter().find(is_deeper).map(|(id, _)| id);
                prop_assert_eq!(deeper, None, "{} is deleted before it", child);
            }
        }
        let object = self.objects.get_mut(child).filter(|object| &*object.child.uid == uid);
        if let Some(object) = object.filter(|object| version.is_none_or(|version| &*object.child.version == version)) {
            object.child.is_terminating = true;
            object.child.readiness = Readiness::Waiting("it is being deleted".to_owned());
        }
        Ok(())
    }

    /// Checks that a slot says what it wants, and that this is ready.
    fn check_ready(&self, slot: usize, child: &ChildId) -> Checked {
        let (function, spec) = (&self.functions[slot], &self.graph.nodes()[slot].spec);
        if self.is_absent(slot) {
            let is_empty = spec.flags.optional && spec.returns != Returns::One;
            prop_assert!(is_empty, "{} depends on s{}, whose kind is not installed", child, slot);
            return Ok(());
        }
        // The function of a child that exists is not called again.
        if !self.flags(slot).once {
            prop_assert!(!function.fails && !function.waits, "{} depends on s{}, which is held", child, slot);
        }
        for id in self.wanted(slot) {
            let is_ready = self.objects.get(&id).is_some_and(|object| object.child.readiness.is_ready());
            prop_assert!(is_ready, "{} depends on {}, which is not ready", child, id);
        }
        Ok(())
    }

    fn is_absent(&self, slot: usize) -> bool {
        self.absent.contains(&*self.graph.nodes()[slot].spec.resource)
    }

    fn is_wanted(&self, id: &ChildId) -> bool {
        self.wanted(self.slot_of(id)).contains(id)
    }

    /// Returns whether a child stays although no slot wants it: it is kept, or none knows it.
    fn outlives_its_slot(&self, id: &ChildId, object: &Stored) -> bool {
        let is_unknown = self.is_unknown(id, object);
        let prunes = self.flags(self.slot_of(id)).prune && !is_unknown;
        let is_kept = object.child.is_protected || (*id.resource == *KEPT || object.is_adopted) && !prunes;
        let is_left = object.is_stray && !(is_unknown && self.graph.prunes(&id.resource));
        !self.is_wanted(id) && (is_kept || is_left || is_unknown && says_keep(&object.child))
    }

    /// Returns whether the labels of an object name a slot, and the program has none of this name and its kind.
    fn is_unknown(&self, id: &ChildId, object: &Stored) -> bool {
        object.child.label.is_some() && self.graph.slot_of(id, &object.child).is_none()
    }

    /// Returns whether a child outlives its owner, as its annotation or its slot says. Each slot of its kind may be the
    /// one of a child whose labels name none.
    fn is_kept(&self, id: &ChildId, child: &Child) -> bool {
        let slot = self.graph.slot_of(id, child);
        let is_of = |spec: &SlotSpec| match slot {
            Some(slot) => spec.name == name(slot),
            None => spec.resource == id.resource,
        };
        let is_released = slot.is_none() && says_keep(child);
        let of_slots = || self.graph.nodes().iter().any(|node| is_of(&node.spec) && node.spec.flags.keep);
        child.is_protected || is_released || of_slots()
    }

    /// Returns whether another controller, or Kubernetes, deletes a child once its owner is deleted.
    fn is_left_to_others(&self, id: &ChildId, object: &Stored) -> bool {
        let child = &object.child;
        let is_unknown = object.is_stray && child.label.is_none() && !child.is_apart;
        child.is_foreign || is_unknown && !self.is_kept(id, child)
    }

    /// The depth at which a child is deleted with its owner. Without labels, it is that of the deepest slot of its
    /// kind.
    fn wave(&self, id: &ChildId, child: &Child) -> u32 {
        let of_kind = self.graph.nodes().iter().filter(|node| node.spec.resource == id.resource);
        let deepest = || of_kind.map(Node::depth).max().unwrap_or_default();
        child.label.as_ref().map_or_else(deepest, |label| label.depth)
    }

    fn flags(&self, slot: usize) -> Flags {
        self.graph.nodes()[slot].spec.flags
    }

    fn slot_of(&self, id: &ChildId) -> usize {
        id.name[1..].split('-').next().unwrap().parse().unwrap()
    }

    /// A child of a slot.
    fn id(&self, slot: usize, number: u8) -> ChildId {
        let spec = &self.graph.nodes()[slot].spec;
        let namespace = (*spec.resource != *APART).then(|| "default".into());
        ChildId { resource: spec.resource.clone(), namespace, name: format!("{}-{number}", spec.name).into() }
    }

    /// The result of the function of a slot.
    fn wanted(&self, slot: usize) -> Vec<ChildId> {
        let (spec, wants) = (&self.graph.nodes()[slot].spec, self.functions[slot].wants);
        let one = |number: u8| self.id(slot, number);
        match spec.returns {
            // A crash leaves some of them out.
            Returns::Many if spec.flags.once || spec.flags.keep => vec![one(0), one(1)],
            _ if spec.flags.once || spec.flags.keep => vec![one(0)],
            Returns::One => vec![one(wants % 3)],
            Returns::Maybe => (wants % 4 < 3).then(|| one(wants % 4)).into_iter().collect(),
            Returns::Many => (0..3).filter(|number| wants >> number & 1 == 1).map(one).collect(),
        }
    }
}
