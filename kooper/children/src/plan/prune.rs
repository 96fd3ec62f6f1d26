//! Pruning: the deletion of children that no slot wants any more.
//!
//! A slot that is held or has failed says nothing about its children, so that none of them is pruned.

use super::{Cause, Planner, SlotState};
use crate::observed::{Child, ChildId, Run};

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

    /// The children of a slot that no slot wants any more, also while they are being deleted. A child that another slot
    /// wants gets the label of that one when it is applied.
    pub(super) fn obsolete(&self, slot: usize) -> impl Iterator<Item = (&'a ChildId, &'a Child)> {
        let flags = self.node(slot).spec.flags;
        self.labelled(slot).filter(move |(id, child)| !flags.keep && !flags.keeps(child) && !self.is_wanted(id))
    }

    /// The children that would be pruned if they were not kept by default.
    pub(super) fn kept(&self) -> Vec<(usize, ChildId)> {
        let mut kept = Vec::new();
        for &slot in self.graph.order() {
            let flags = self.node(slot).spec.flags;
            let mut children = self.labelled(slot).filter(|(_, child)| !flags.keep && flags.keeps(child)).peekable();
            if children.peek().is_some() && self.may_prune(slot) {
                kept.extend(children.filter(|(id, _)| !self.is_wanted(id)).map(|(id, _)| (slot, id.clone())));
            }
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
