//! The planner: from an owner, its slots and what is observed to the next steps. It sends nothing and remembers
//! nothing: whoever executes the steps notes their results in [`Observed`] and plans again, until there are no steps.
//! A crash in between loses nothing, because the next pass begins with the labels of the children.

mod deletion;
mod existing;
#[cfg(test)]
mod mistakes;
mod prune;

use std::sync::Arc;

use crate::graph::{Graph, Node, Recreate, Returns};
use crate::observed::{Child, ChildId, Observed, Owner, Run, SlotLabel, SlotProgress, Write};
use crate::readiness::Readiness;

/// A step of a plan. All steps of one plan can be executed at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Call the function of the slot.
    Call {
        /// The index of the slot.
        slot: usize,
    },
    /// Apply a child that the slot's function has returned, with the labels.
    Apply {
        /// The index of the slot.
        slot: usize,
        /// The child.
        child: ChildId,
        /// The labels that it gets.
        label: SlotLabel,
    },
    /// Set the labels of a child and the version in its owner reference, and nothing else of it: it was created once.
    Label {
        /// The index of the slot.
        slot: usize,
        /// The child.
        child: ChildId,
        /// The labels that it gets.
        label: SlotLabel,
    },
    /// Delete a child of this uid and version.
    Delete {
        /// The child.
        child: ChildId,
        /// Its uid.
        uid: Arc<str>,
        /// Its version; `None` for any.
        version: Option<Arc<str>>,
        /// The reason.
        cause: Cause,
    },
    /// Remove the owner reference of a child, so that it outlives its owner.
    Release {
        /// The child.
        child: ChildId,
        /// Its uid.
        uid: Arc<str>,
    },
}

/// The reason for which a child is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No slot wants it any more.
    Prune,
    /// It is created again.
    Recreate(Recreate),
    /// Its owner is being deleted, and this is the turn of its depth.
    Wave(u32),
}

/// The state of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// It still has steps in this pass.
    Pending,
    /// Its kind is not installed, and it is optional.
    Skipped,
    /// It waits for something. Its children are neither applied nor pruned.
    Held(String),
    /// Its function failed, or a write was refused.
    Failed(String),
    /// A child cannot become what its function says: it is invalid, or an immutable field would change.
    Stalled(String),
    /// Its children are applied, and not ready yet.
    NotReady(String),
    /// Its children are applied, and one of them has failed by itself.
    Unhealthy(String),
    /// Its children are applied and ready, also if it has none.
    Ready,
}

impl SlotState {
    /// The names of the states in which a pass can end.
    pub(crate) const NAMES: [&'static str; 8] =
        ["pending", "skipped", "held", "failed", "stalled", "not_ready", "unhealthy", "ready"];

    /// Its name, as in the metric `kooper_child_state`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Skipped => "skipped",
            Self::Held(_) => "held",
            Self::Failed(_) => "failed",
            Self::Stalled(_) => "stalled",
            Self::NotReady(_) => "not_ready",
            Self::Unhealthy(_) => "unhealthy",
            Self::Ready => "ready",
        }
    }

    /// The reason for which it is not ready.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Held(why) | Self::Failed(why) | Self::Stalled(why) | Self::NotReady(why) | Self::Unhealthy(why) => {
                Some(why)
            }
            Self::Pending | Self::Skipped | Self::Ready => None,
        }
    }
}

/// The next steps, and the state of each slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The next steps; none if the pass is over.
    pub steps: Vec<Step>,
    /// The state of each slot, in the order of the graph's nodes. Empty while the owner is being deleted.
    pub slots: Vec<SlotState>,
    /// The children that block the deletion of the owner: those of the current wave.
    pub blocking: Vec<ChildId>,
    /// The children that no slot wants any more, each with the name of its slot, and that are kept: they were adopted,
    /// their kind is kept by default, or an annotation keeps them.
    pub kept: Vec<(Arc<str>, ChildId)>,
    /// A child of a removed slot that still exists although it should be deleted, and why its deletion was refused. Those
    /// that it may use stay.
    pub undeleted: Option<(ChildId, Option<String>)>,
}

/// Plans the next steps.
#[must_use]
pub fn plan(owner: &Owner, graph: &Graph, observed: &Observed) -> Plan {
    if owner.is_terminating {
        return deletion::plan(owner, graph, observed);
    }
    let mut planner = Planner::new(graph, observed);
    for &slot in graph.order() {
        planner.states[slot] = planner.judge(slot);
    }
    planner.prune();
    planner.prune_previous();
    planner.fail_undeleted();
    let kept = planner.kept();
    let undeleted = planner.undeleted();
    Plan { steps: planner.steps, slots: planner.states, blocking: Vec::new(), kept, undeleted }
}

/// The children that a slot gives to those that take it: what its function has returned in this pass, or else those
/// that have its label, except in other namespaces than that of the owner. One that is being deleted is given only if
/// there is no other.
#[must_use]
pub fn provided<'a>(graph: &Graph, observed: &'a Observed, slot: usize) -> Vec<&'a ChildId> {
    let progress = &observed.slots[slot];
    if progress.run == Run::Returned {
        return progress.desired.iter().map(|(id, _)| id).collect();
    }
    let of_owner = || observed.children.iter().filter(|(_, child)| !child.is_elsewhere);
    let labelled = || of_owner().filter(|(id, child)| graph.slot_of(id, child) == Some(slot));
    let stays = |(_, child): &(&ChildId, &Child)| !child.is_terminating;
    let is_any = labelled().any(|child| stays(&child));
    labelled().filter(|child| !is_any || stays(child)).map(|(id, _)| id).collect()
}

struct Planner<'a> {
    graph: &'a Graph,
    observed: &'a Observed,
    /// The children that have the label of a slot, in the order of the slots.
    labelled: Vec<(usize, &'a ChildId, &'a Child)>,
    /// The children that functions have returned, and those that were created once, in order.
    wanted: Vec<&'a ChildId>,
    states: Vec<SlotState>,
    steps: Vec<Step>,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a Graph, observed: &'a Observed) -> Self {
        let labelled = observed.children.iter().filter_map(|(id, child)| Some((graph.slot_of(id, child)?, id, child)));
        let mut labelled: Vec<_> = labelled.collect();
        labelled.sort_by_key(|(slot, ..)| *slot);
        let returned = observed.slots.iter().flat_map(|slot| &slot.desired).map(|(id, _)| id);
        let once = labelled.iter().filter(|(slot, ..)| graph.nodes()[*slot].spec.flags.once).map(|(_, id, _)| *id);
        let mut wanted: Vec<_> = returned.chain(once).collect();
        wanted.sort_unstable();
        let states = vec![SlotState::Pending; graph.nodes().len()];
        Self { graph, observed, labelled, wanted, states, steps: Vec::new() }
    }

    fn node(&self, slot: usize) -> &'a Node {
        &self.graph.nodes()[slot]
    }

    fn progress(&self, slot: usize) -> &'a SlotProgress {
        &self.observed.slots[slot]
    }

    fn name(&self, slot: usize) -> &'a str {
        &self.node(slot).spec.name
    }

    fn label(&self, slot: usize) -> SlotLabel {
        self.node(slot).label.clone()
    }

    /// The children that have the slot's label.
    fn labelled(&self, slot: usize) -> impl Iterator<Item = (&'a ChildId, &'a Child)> {
        let start = self.labelled.partition_point(|(of, ..)| *of < slot);
        let labelled = self.labelled[start..].iter().take_while(move |(of, ..)| *of == slot);
        labelled.map(|(_, id, child)| (*id, *child))
    }

    /// The children that are known to be of the slot: those that its function has returned, or that have its label, except
    /// in other namespaces.
    fn certain(&self, slot: usize) -> impl Iterator<Item = (&'a ChildId, &'a Child)> {
        let desired = &self.progress(slot).desired;
        self.labelled(slot).filter(move |(id, child)| !child.is_elsewhere || desired.iter().any(|(one, _)| one == *id))
    }

    /// Returns `true` if the function of a slot has returned the child. Objects of `external` slots are not children.
    fn is_returned(&self, child: &ChildId) -> bool {
        let slots = self.graph.nodes().iter().zip(&self.observed.slots);
        let mut slots = slots.filter(|(node, _)| !node.spec.flags.external);
        slots.any(|(_, progress)| progress.desired.iter().any(|(one, _)| one == child))
    }

    fn is_wanted(&self, child: &ChildId) -> bool {
        self.wanted.binary_search(&child).is_ok()
    }

    /// Judges a slot whose dependencies are judged, and adds its next steps.
    fn judge(&mut self, slot: usize) -> SlotState {
        let (node, progress) = (self.node(slot), self.progress(slot));
        if progress.is_absent {
            let absent = || format!("the kind {} is not installed", node.spec.kind);
            return if node.spec.flags.optional { SlotState::Skipped } else { SlotState::Held(absent()) };
        }
        let mut dependencies = node.inputs.iter().chain(&node.after);
        if dependencies.any(|&other| self.states[other] == SlotState::Pending) {
            return SlotState::Pending;
        }
        if let Err(why) = self.has_inputs(slot) {
            return SlotState::Held(why);
        }
        // Only the function knows whether a list has all of its children, and which one elsewhere is the slot's.
        if node.spec.flags.once && node.spec.returns != Returns::Many && progress.run == Run::NotCalled {
            let existing: Vec<_> = self.certain(slot).collect();
            // Its label may be wrong: that slot waits until the function of this one has said what it wants.
            if !existing.is_empty() && !existing.iter().any(|(id, _)| self.is_returned(id)) {
                return self.keep_labels(slot, &existing);
            }
        }
        match &progress.run {
            Run::NotCalled => match self.may_create(slot) {
                Err(why) if node.spec.flags.external || !self.may_exist(slot) => SlotState::Held(why),
                _ => {
                    self.steps.push(Step::Call { slot });
                    SlotState::Pending
                }
            },
            Run::Waits(why) => SlotState::Held(why.clone()),
            Run::Failed(why) => SlotState::Failed(why.clone()),
            Run::Returned if node.spec.flags.external => {
                let desired = &progress.desired;
                self.worst(desired.iter().map(|(id, _)| (id, self.observed.external.get(id))))
            }
            Run::Returned => self.write(slot),
        }
    }

    /// Applies what the function of a slot has returned.
    fn write(&mut self, slot: usize) -> SlotState {
        let (node, progress) = (self.node(slot), self.progress(slot));
        let mut steps = Vec::new();
        let (mut held, mut failed, mut stalled) = (None, None, None);
        // Both would use the same port or volume: the old one goes first. What nothing replaces is pruned, after its users.
        if node.spec.flags.recreate.is_some()
            && progress.desired.iter().any(|(id, _)| !self.observed.children.contains_key(id))
        {
            // It serves until the new one may be created.
            let may_create = self.may_replace(slot);
            for (id, old) in self.obsolete(slot) {
                held.get_or_insert_with(|| {
                    may_create.clone().err().unwrap_or_else(|| format!("waits until {id} is gone"))
                });
                // One of another name does not take over the dependents.
                let cause = Cause::Recreate(Recreate::Foreground);
                steps.extend(self.delete(id, old, cause).filter(|_| may_create.is_ok()));
            }
        }
        let blocked = held.clone();
        for (id, write) in &progress.desired {
            let existing = self.observed.children.get(id);
            let undecided = existing.and_then(|child| self.undecided(slot, id, child));
            match (write, existing) {
                (Write::Applied, _) => {}
                (Write::Refused(why), _) => {
                    failed.get_or_insert_with(|| why.clone());
                }
                (Write::Immutable(why), Some(old)) if node.spec.flags.recreate.is_some() && old.is_protected => {
                    let advice = "remove its annotation `kooper.rs/keep` to let it be created again";
                    stalled.get_or_insert_with(|| format!("{why}; {advice}"));
                }
                (Write::Immutable(why), existing) => match (node.spec.flags.recreate, existing) {
                    (Some(recreate), Some(old)) => match self.may_replace(slot) {
                        Ok(()) => {
                            held.get_or_insert_with(|| format!("waits until {id} is gone, to create it again"));
                            steps.extend(self.delete(id, old, Cause::Recreate(recreate)));
                        }
                        Err(waits) => {
                            held.get_or_insert_with(|| format!("{waits}; then {id} is created again: {why}"));
                        }
                    },
                    // The next pass creates it.
                    (Some(_), None) => {
                        held.get_or_insert_with(|| format!("waits until {id} is created again"));
                    }
                    (None, _) => {
                        let advice = "write `recreate` to delete it and create it again";
                        stalled.get_or_insert_with(|| format!("{why}; {advice}"));
                    }
                },
                (Write::Invalid(why), _) => {
                    stalled.get_or_insert_with(|| why.clone());
                }
                (Write::Pending, Some(child)) if child.is_terminating => {
                    held.get_or_insert_with(|| format!("waits until {id} is gone: it is being deleted"));
                }
                (Write::Pending, Some(_)) if undecided.is_some() => {
                    held.get_or_insert_with(|| {
                        format!("waits for {}, whose child {id} is", undecided.unwrap_or_default())
                    });
                }
                (Write::Pending, Some(child)) if node.spec.flags.once => {
                    if self.needs_metadata(slot, child) {
                        steps.push(Step::Label { slot, child: id.clone(), label: self.label(slot) });
                    }
                }
                (Write::Pending, Some(_)) => {
                    steps.push(Step::Apply { slot, child: id.clone(), label: self.label(slot) });
                }
                (Write::Pending, None) => match blocked.clone().map_or_else(|| self.may_create(slot), Err) {
                    Ok(()) => steps.push(Step::Apply { slot, child: id.clone(), label: self.label(slot) }),
                    Err(why) => {
                        held.get_or_insert(why);
                    }
                },
            }
        }
        let has_steps = !steps.is_empty();
        self.steps.extend(steps);
        match (stalled, failed, held) {
            _ if has_steps => SlotState::Pending,
            (Some(why), _, _) => SlotState::Stalled(why),
            (None, Some(why), _) => SlotState::Failed(why),
            (None, None, Some(why)) => SlotState::Held(why),
            (None, None, None) => {
                let is_none = progress.desired.is_empty() && self.labelled(slot).next().is_none();
                match is_none.then(|| self.may_create(slot).err()).flatten() {
                    Some(why) => SlotState::Held(why),
                    None => self.condition(progress.desired.iter().map(|(id, _)| id)),
                }
            }
        }
    }

    /// The other slot whose label a child has, if it is not known whether that one still wants it. A dependent says so only
    /// afterwards, and keeps the slot from pruning until then.
    fn undecided(&self, slot: usize, id: &ChildId, child: &Child) -> Option<&'a str> {
        let other = self.graph.slot_of(id, child).filter(|other| *other != slot)?;
        let is_undecided = self.progress(other).run != Run::Returned && !self.node(slot).dependents.contains(&other);
        is_undecided.then(|| self.name(other))
    }

    /// The state of a slot whose children are applied.
    fn condition<'b>(&self, children: impl IntoIterator<Item = &'b ChildId>) -> SlotState {
        self.worst(children.into_iter().map(|id| (id, self.observed.children.get(id).map(|child| &child.readiness))))
    }

    fn worst<'b>(&self, children: impl Iterator<Item = (&'b ChildId, Option<&'b Readiness>)>) -> SlotState {
        let mut state = SlotState::Ready;
        let children: Vec<_> = children.collect();
        // The slot's name says which child it is if there is one only.
        let named = |id: &ChildId, why: &str| match children.len() {
            1 => why.to_owned(),
            _ => format!("{id}: {why}"),
        };
        for (id, readiness) in &children {
            match readiness {
                Some(Readiness::Ready) => {}
                Some(Readiness::Failed(why)) => return SlotState::Unhealthy(named(id, why)),
                Some(Readiness::Usable(why) | Readiness::Waiting(why)) => state = SlotState::NotReady(named(id, why)),
                None => state = SlotState::NotReady(format!("{id} does not exist yet")),
            }
        }
        state
    }

    /// Checks that the function can be called: the children that it takes exist, or are known to be none.
    fn has_inputs(&self, slot: usize) -> Result<(), String> {
        self.node(slot).inputs.iter().try_for_each(|&input| self.data(input).map(drop))
    }

    /// Returns whether all inputs are ready. Only then the function says what should no longer exist.
    fn are_inputs_ready(&self, slot: usize) -> bool {
        self.node(slot).inputs.iter().all(|&input| self.data(input) == Ok(true))
    }

    /// Checks that a child of the slot may be created: all that it depends on is ready.
    fn may_create(&self, slot: usize) -> Result<(), String> {
        let node = self.node(slot);
        for &other in node.inputs.iter().chain(&node.after) {
            if self.data(other) != Ok(true) {
                return Err(self.explain(other));
            }
        }
        Ok(())
    }

    /// The reason to wait for a slot.
    fn explain(&self, slot: usize) -> String {
        let name = self.name(slot);
        match &self.states[slot] {
            SlotState::Held(why) | SlotState::NotReady(why) | SlotState::Unhealthy(why) => {
                format!("waits for {name}: {why}")
            }
            SlotState::Failed(_) | SlotState::Stalled(_) => format!("waits for {name}, which has failed"),
            SlotState::Skipped => format!("waits for {name}, whose kind is not installed"),
            SlotState::Pending | SlotState::Ready => format!("waits for {name}"),
        }
    }

    /// Returns whether the children of a slot are ready for others, or an error if it is not known which they are.
    fn data(&self, slot: usize) -> Result<bool, String> {
        let (returns, progress) = (self.node(slot).spec.returns, self.progress(slot));
        match &self.states[slot] {
            SlotState::Ready => Ok(true),
            SlotState::NotReady(_) | SlotState::Unhealthy(_) => {
                let desired = progress.desired.iter().map(|(id, _)| id);
                let children: Vec<_> = match self.node(slot).spec.flags.external {
                    true => desired.map(|id| self.observed.external.get(id)).collect(),
                    false if progress.run == Run::NotCalled => {
                        let readable = |child: &'a Child| (!child.is_unreadable).then_some(&child.readiness);
                        self.certain(slot).map(|(_, child)| readable(child)).collect()
                    }
                    false => {
                        let is_live = |child: &&Child| !child.is_terminating && !child.is_unreadable;
                        let live = |id| self.observed.children.get(id).filter(is_live);
                        desired.map(|id| live(id).map(|child| &child.readiness)).collect()
                    }
                };
                if children.iter().any(Option::is_none) {
                    return Err(self.explain(slot));
                }
                Ok(children.into_iter().flatten().all(Readiness::is_usable))
            }
            // An empty list and none are values.
            SlotState::Skipped if returns != Returns::One => Ok(true),
            // It is not known which children a held list has; of a single one the last is as good.
            SlotState::Held(_) if returns != Returns::Many => {
                let mut live = self.certain(slot).filter(|(_, child)| !child.is_terminating);
                let is_wanted = |id| progress.run != Run::Returned || progress.desired.iter().any(|(one, _)| one == id);
                match (live.next(), live.next()) {
                    (Some((id, child)), None) if is_wanted(id) && !child.is_unreadable => Ok(false),
                    _ => Err(self.explain(slot)),
                }
            }
            _ => Err(self.explain(slot)),
        }
    }
}

#[cfg(test)]
mod tests;
