//! A small cluster that plans are executed in. It checks each write against what the functions would return.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::{Cause, Plan, Step, mistakes, plan, provided};
use crate::graph::{Flags, Graph, Recreate, Returns, SlotSpec};
use crate::observed::{Child, ChildId, Observed, Owner, Run, SlotLabel, SlotProgress, Write};
use crate::readiness::Readiness;

pub(super) type Checked = Result<(), TestCaseError>;

/// The names of children.
type Names = BTreeSet<Arc<str>>;

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) enum Happening {
    /// The owner changes, and the function returns children of other names.
    Wants(usize, u8),
    Fails(usize, bool),
    Waits(usize, bool),
    /// The writes of a slot are refused, or no longer.
    Refuses(usize, bool),
    /// The children of a slot become ready, or are not ready any more.
    Ready(usize, bool),
    /// Another client deletes a child.
    Deleted(usize),
    /// Another client creates an object, and the owner changes and wants it.
    Created(usize, u8),
    /// What is being deleted goes.
    Collected,
    /// A pass, which ends with a crash after so many steps.
    Pass(Option<u8>),
}

#[derive(Debug, Clone, Default)]
struct Function {
    wants: u8,
    fails: bool,
    waits: bool,
    refuses: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Stored {
    child: Child,
    /// Another client has created it.
    is_adopted: bool,
    /// The children that its content refers to.
    refers: Names,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) graph: Graph,
    functions: Vec<Function>,
    objects: BTreeMap<ChildId, Stored>,
    released: BTreeSet<ChildId>,
    /// The objects of other clients, without an owner.
    free: BTreeSet<ChildId>,
    last: u32,
}

/// Graphs of up to six slots.
pub(super) fn graphs() -> impl Strategy<Value = Graph> {
    let slot = (any::<u8>(), any::<u8>(), 0..3u8, 0..9u8);
    prop::collection::vec(slot, 1..6).prop_map(|slots| {
        let specs = slots.into_iter().enumerate().map(|(index, (inputs, after, returns, flags))| {
            let earlier = |bits: u8| (0..index).filter(|other| bits >> other & 1 == 1).map(name).collect();
            let mut flags = match flags {
                1 => Flags { once: true, ..Flags::default() },
                2 => Flags { keep: true, ..Flags::default() },
                3 => Flags { recreate: Some(Recreate::Foreground), ..Flags::default() },
                4 => Flags { not_ready: true, ..Flags::default() },
                5 | 6 => Flags { adopt: true, ..Flags::default() },
                _ => Flags::default(),
            };
            let returns = match returns {
                1 if !flags.once => Returns::Maybe,
                2 => Returns::Many,
                _ => Returns::One,
            };
            flags.prune = returns == Returns::Many && !flags.keep;
            SlotSpec {
                name: name(index),
                resource: "configmaps".into(),
                inputs: earlier(inputs),
                after: earlier(after),
                returns,
                flags,
                ..SlotSpec::default()
            }
        });
        Graph::new(specs.collect()).unwrap()
    })
}

pub(super) fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let slot = 0..6usize;
    let happening = prop_oneof![
        3 => (slot.clone(), any::<u8>()).prop_map(|(slot, wants)| Happening::Wants(slot, wants)),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, fails)| Happening::Fails(slot, fails)),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, waits)| Happening::Waits(slot, waits)),
        1 => (slot.clone(), any::<bool>()).prop_map(|(slot, refuses)| Happening::Refuses(slot, refuses)),
        3 => (slot.clone(), any::<bool>()).prop_map(|(slot, ready)| Happening::Ready(slot, ready)),
        1 => (0..20usize).prop_map(Happening::Deleted),
        2 => (slot, 0..3u8).prop_map(|(slot, number)| Happening::Created(slot, number)),
        2 => Just(Happening::Collected),
        4 => Just(Happening::Pass(None)),
        1 => (0..6u8).prop_map(|steps| Happening::Pass(Some(steps))),
    ];
    prop::collection::vec(happening, 0..40)
}

fn name(slot: usize) -> String {
    format!("s{slot}")
}

fn id(name: String) -> ChildId {
    ChildId { resource: "configmaps".into(), namespace: Some("default".into()), name: name.into() }
}

impl World {
    pub(super) fn new(graph: &Graph) -> Self {
        let functions = vec![Function::default(); graph.nodes().len()];
        let (objects, released, free) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { graph: graph.clone(), functions, objects, released, free, last: 0 }
    }

    /// A world where nothing has happened yet, with the same owner.
    pub(super) fn fresh(&self) -> Self {
        let functions = self.functions.iter().map(|function| Function { wants: function.wants, ..Function::default() });
        Self { functions: functions.collect(), ..Self::new(&self.graph) }
    }

    pub(super) fn happens(&mut self, happening: &Happening) -> Checked {
        let count = self.graph.nodes().len();
        match *happening {
            Happening::Wants(slot, wants) => self.functions[slot % count].wants = wants,
            Happening::Fails(slot, fails) => self.functions[slot % count].fails = fails,
            Happening::Waits(slot, waits) => self.functions[slot % count].waits = waits,
            Happening::Refuses(slot, refuses) => self.functions[slot % count].refuses = refuses,
            Happening::Ready(slot, is_ready) => self.become_ready(Some(slot % count), is_ready),
            Happening::Deleted(index) => {
                if let Some((_, object)) = self.objects.iter_mut().nth(index) {
                    object.child.is_terminating = true;
                    object.child.readiness = Readiness::Waiting("it is being deleted".to_owned());
                }
            }
            Happening::Created(slot, number) => {
                self.functions[slot % count].wants = number;
                let id = id(format!("{}-{number}", name(slot % count)));
                if !self.objects.contains_key(&id) {
                    self.free.insert(id);
                }
            }
            Happening::Collected => self.objects.retain(|_, object| !object.child.is_terminating),
            Happening::Pass(steps) => return self.pass(&Owner::default(), steps).map(drop),
        }
        Ok(())
    }

    fn become_ready(&mut self, slot: Option<usize>, is_ready: bool) {
        for (id, object) in &mut self.objects {
            let is_of = slot.is_none_or(|slot| id.name.starts_with(&format!("{}-", name(slot))));
            if is_of && !object.child.is_terminating {
                self.last += 1;
                object.child.version = self.last.to_string().into();
                object.child.readiness = match is_ready {
                    true => Readiness::Ready,
                    false => Readiness::Waiting("it starts".to_owned()),
                };
            }
        }
    }

    /// All trouble ends, and passes follow each other until nothing changes.
    pub(super) fn settle(&mut self) -> Checked {
        self.free.clear();
        for function in &mut self.functions {
            *function = Function { wants: function.wants, ..Function::default() };
        }
        for _ in 0..40 {
            self.pass(&Owner::default(), None)?;
            self.become_ready(None, true);
            self.happens(&Happening::Collected)?;
        }
        Ok(())
    }

    /// The objects with their labels and references. A child that was created once keeps those of its creation. An adopted
    /// one stays, whether it is wanted or not.
    pub(super) fn state(&self) -> BTreeMap<Arc<str>, (Option<SlotLabel>, Names)> {
        let is_of_slot = |(id, object): &(&ChildId, &Stored)| !self.stays(id, object);
        let state = self.objects.iter().filter(is_of_slot).map(|(id, object)| {
            let refers = if self.flags(self.slot_of(id)).once { BTreeSet::new() } else { object.refers.clone() };
            (id.name.clone(), (object.child.label.clone(), refers))
        });
        state.collect()
    }

    /// Deletes the owner, and lets passes follow each other until the plan is done. The first ones end with a crash, after
    /// so many steps each.
    pub(super) fn delete(&mut self, crashes: impl IntoIterator<Item = u8>) -> Checked {
        let owner = Owner { is_terminating: true, is_ordered: true };
        let mut crashes = crashes.into_iter();
        for round in 0..120 {
            let crash = crashes.next();
            let end = self.pass(&owner, crash)?;
            if crash.is_none() && end.steps.is_empty() && end.blocking.is_empty() {
                let is_left = |id: &&ChildId| !self.released.contains(*id);
                prop_assert_eq!(self.objects.keys().filter(is_left).count(), 0, "left over: {:?}", self.objects);
                return Ok(());
            }
            if round % 2 == 1 {
                self.happens(&Happening::Collected)?;
            }
        }
        Err(TestCaseError::fail("the deletion does not end"))
    }

    /// Plans and executes until there are no steps, or until the crash.
    fn pass(&mut self, owner: &Owner, crash_after: Option<u8>) -> Result<Plan, TestCaseError> {
        let mut observed =
            Observed { slots: vec![SlotProgress::default(); self.functions.len()], ..Observed::default() };
        let mut left = crash_after.map_or(usize::MAX, usize::from);
        for _ in 0..50 {
            observed.children = self.objects.iter().map(|(id, object)| (id.clone(), object.child.clone())).collect();
            observed.children.retain(|id, _| !self.released.contains(id));
            let next = plan(owner, &self.graph, &observed);
            for step in &next.steps {
                if left == 0 {
                    return Ok(next);
                }
                left -= 1;
                self.execute(step, &mut observed)?;
            }
            if next.steps.is_empty() {
                return Ok(next);
            }
        }
        Err(TestCaseError::fail("the pass does not end"))
    }

    fn execute(&mut self, step: &Step, observed: &mut Observed) -> Checked {
        match step {
            Step::Call { slot } => {
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
                }
            }
            Step::Delete { child, uid, version, cause } => self.remove(child, uid, version.as_deref(), *cause)?,
            Step::Release { child, .. } => {
                prop_assert!(self.flags(self.slot_of(child)).keep);
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
        let label = (!mistakes::loses_labels()).then(|| label.clone());
        let is_adopted = self.free.contains(child);
        if is_adopted && !node.spec.flags.adopt {
            return Ok(Write::Refused("it belongs to no owner".to_owned()));
        }
        match self.objects.get_mut(child) {
            Some(object) => {
                prop_assert!(!object.child.is_terminating, "{} is applied while it is being deleted", child);
                prop_assert!(!node.spec.flags.once, "{} is applied twice", child);
                if node.spec.flags.recreate.is_some() && object.refers != refers {
                    return Ok(Write::Immutable("its content is immutable".to_owned()));
                }
                let is_kept = object.child.is_kept && !mistakes::forgets_adoption();
                object.child = Child { label, version, is_kept, ..object.child.clone() };
                object.refers = refers;
            }
            None => {
                for &other in node.inputs.iter().chain(&node.after) {
                    self.check_ready(other, child)?;
                }
                let readiness = Readiness::Waiting("it starts".to_owned());
                let uid = version.clone();
                let child_now = Child {
                    uid,
                    version,
                    label,
                    readiness,
                    is_terminating: false,
                    is_unreadable: false,
                    is_kept: is_adopted && !mistakes::forgets_adoption(),
                    is_protected: false,
                    is_apart: false,
                    is_foreign: false,
                };
                self.free.remove(child);
                self.objects.insert(child.clone(), Stored { child: child_now, is_adopted, refers });
            }
        }
        Ok(Write::Applied)
    }

    fn remove(&mut self, child: &ChildId, uid: &str, version: Option<&str>, cause: Cause) -> Checked {
        let slot = self.slot_of(child);
        prop_assert!(!self.flags(slot).keep, "{} is kept", child);
        match cause {
            Cause::Prune => {
                prop_assert!(!self.wanted(slot).contains(child), "{} is pruned, and is wanted", child);
                let is_adopted = self.objects.get(child).is_some_and(|object| object.is_adopted);
                prop_assert!(!is_adopted || self.flags(slot).prune, "{} is pruned, and was adopted", child);
                if !self.flags(slot).not_ready {
                    self.check_ready(slot, child)?;
                }
                let once = |id: &ChildId| self.flags(self.slot_of(id)).once;
                let refers = |(id, object): &(&ChildId, &Stored)| {
                    !once(id) && !self.stays(id, object) && object.refers.contains(&child.name)
                };
                prop_assert_eq!(self.objects.iter().find(refers), None::<(&ChildId, &Stored)>, "{} is in use", child);
            }
            Cause::Recreate(_) => prop_assert!(self.flags(slot).recreate.is_some()),
            Cause::Wave(depth) => {
                prop_assert_eq!(depth, self.graph.nodes()[slot].depth());
                let is_deeper = |id: &&ChildId| {
                    let slot = self.slot_of(id);
                    self.graph.nodes()[slot].depth() > depth && !self.flags(slot).keep
                };
                prop_assert_eq!(self.objects.keys().find(is_deeper), None, "{} is deleted before it", child);
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
        let function = &self.functions[slot];
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

    /// Returns whether an object is only there because it was adopted.
    fn stays(&self, id: &ChildId, object: &Stored) -> bool {
        let slot = self.slot_of(id);
        object.is_adopted && !self.flags(slot).prune && !self.wanted(slot).contains(id)
    }

    fn flags(&self, slot: usize) -> Flags {
        self.graph.nodes()[slot].spec.flags
    }

    fn slot_of(&self, id: &ChildId) -> usize {
        id.name[1..].split('-').next().unwrap().parse().unwrap()
    }

    /// What the function of a slot would return.
    fn wanted(&self, slot: usize) -> Vec<ChildId> {
        let (spec, wants) = (&self.graph.nodes()[slot].spec, self.functions[slot].wants);
        let one = |number: u8| id(format!("{}-{number}", spec.name));
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
