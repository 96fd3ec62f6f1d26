//! Pruning: the deletion of children that no slot wants any more.
//!
//! A slot that is held or has failed says nothing about its children, so that none of them is pruned. Nor is a child of
//! a slot that is not known, in any such pass: it may be the child of a renamed function, which gives it a new label.

use std::sync::Arc;

use super::{Cause, Planner, SlotState};
use crate::observed::{Child, ChildId, Run, SlotLabel};

impl<'a> Planner<'a> {
    pub(super) fn prune(&mut self) {
        for &slot in self.graph.order() {
            if self.may_prune(slot) {
                let obsolete: Vec<_> = self.obsolete(slot).collect();
                let steps: Vec<_> =
                    obsolete.into_iter().filter_map(|(id, child)| self.delete(id, child, Cause::Prune)).collect();
                self.steps.extend(steps);
            }
        }
    }

    /// Deletes the children of slots that were removed, of those kinds for which this is wanted: the deepest first,
    /// because they may use the others. Which slots used them is not known, so they are deleted after all other
    /// children.
    pub(super) fn prune_previous(&mut self) {
        let turn = self.turn().into_iter();
        let steps: Vec<_> = turn.filter_map(|(id, child)| self.delete(id, child, Cause::Prune)).collect();
        self.steps.extend(steps);
    }

    /// A child whose turn it is, and that does not go: first one whose deletion was refused.
    pub(super) fn undeleted(&self) -> Option<(ChildId, Option<String>)> {
        let turn = self.turn();
        let refused = turn.iter().find_map(|(id, _)| Some((*id, self.observed.refused.get(*id)?.clone())));
        match refused {
            Some((id, why)) => Some((id.clone(), Some(why))),
            None => turn.into_iter().find(|(_, child)| child.is_terminating).map(|(id, _)| (id.clone(), None)),
        }
    }

    /// The children of slots that were removed whose turn it is.
    fn turn(&self) -> Vec<(&'a ChildId, &'a Child)> {
        if !self.may_prune_previous() {
            return Vec::new();
        }
        let obsolete: Vec<_> = self.previous().filter(|(_, child, label)| !is_kept(child, label)).collect();
        let deepest = obsolete.iter().map(|(.., label)| label.depth).max();
        let turn = obsolete.into_iter().filter(|(.., label)| Some(label.depth) == deepest);
        turn.map(|(id, child, _)| (id, child)).collect()
    }

    /// The children of slots that were removed, of those kinds for which this is wanted, also while they are being
    /// deleted.
    fn previous(&self) -> impl Iterator<Item = (&'a ChildId, &'a Child, &'a SlotLabel)> {
        self.observed.children.iter().filter_map(|(id, child)| {
            let label = child.label.as_ref().filter(|_| self.graph.slot_of(id, child).is_none())?;
            // A policy may change the label of a child that a slot wants.
            (self.graph.prunes(&id.resource) && !self.is_wanted(id)).then_some((id, child, label))
        })
    }

    /// Returns whether all slots are applied and ready, and no other child remains to be pruned.
    fn may_prune_previous(&self) -> bool {
        #[cfg(test)]
        if super::mistakes::Mistake::PruneBeforeComplete.is_planted() {
            return true;
        }
        let is_over = |slot: usize| self.is_done(slot) && self.obsolete(slot).next().is_none();
        !self.graph.previous().is_empty() && self.graph.order().iter().all(|slot| is_over(*slot))
    }

    /// The children of a slot that no slot wants any more, also while they are being deleted. A child that another slot
    /// wants gets the label of that one when it is applied.
    pub(super) fn obsolete(&self, slot: usize) -> impl Iterator<Item = (&'a ChildId, &'a Child)> {
        let flags = self.node(slot).spec.flags;
        self.labelled(slot).filter(move |(id, child)| !flags.keep && !flags.keeps(child) && !self.is_wanted(id))
    }

    /// The children that would be pruned if they were not kept by default.
    pub(super) fn kept(&self) -> Vec<(Arc<str>, ChildId)> {
        let mut kept = Vec::new();
        for &slot in self.graph.order() {
            let flags = self.node(slot).spec.flags;
            let mut children = self.labelled(slot).filter(|(_, child)| !flags.keep && flags.keeps(child)).peekable();
            if children.peek().is_some() && self.may_prune(slot) {
                let name = &self.node(slot).label.slot;
                kept.extend(children.filter(|(id, _)| !self.is_wanted(id)).map(|(id, _)| (name.clone(), id.clone())));
            }
        }
        if self.may_prune_previous() {
            let previous = self.previous().filter(|(_, child, label)| is_kept(child, label));
            kept.extend(previous.map(|(id, _, label)| (label.slot.clone(), id.clone())));
        }
        kept
    }

    /// Returns whether the slot's obsolete children can be deleted: its function has said what it wants instead, that
    /// is ready, and what depends on it neither refers to the old ones nor has obsolete children of its own.
    fn may_prune(&self, slot: usize) -> bool {
        #[cfg(test)]
        if let Some(decided) = super::mistakes::may_prune(&self.states[slot], &self.progress(slot).run) {
            return decided;
        }
        let is_gone = |&other: &usize| self.is_done(other) && self.obsolete(other).next().is_none();
        self.progress(slot).run == Run::Returned
            && self.are_inputs_ready(slot)
            && self.is_done(slot)
            && self.node(slot).dependents.iter().all(is_gone)
    }

    /// Returns whether the children of the slot are applied, and ready if that counts.
    fn is_done(&self, slot: usize) -> bool {
        match &self.states[slot] {
            SlotState::Ready | SlotState::Skipped => true,
            SlotState::NotReady(_) | SlotState::Unhealthy(_) => self.node(slot).spec.flags.not_ready,
            SlotState::Pending | SlotState::Held(_) | SlotState::Failed(_) | SlotState::Stalled(_) => false,
        }
    }
}

/// Returns whether a child of a slot that was removed stays. Of the flags of the slot, its labels have `keep` alone:
/// what was adopted stays although the slot may have had `prune`.
fn is_kept(child: &Child, label: &SlotLabel) -> bool {
    child.is_protected || child.is_kept || label.keep
}
