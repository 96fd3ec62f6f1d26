//! The labels, the deletion and the replacement of children that exist.

use super::{Cause, Planner, SlotState, Step};
use crate::observed::{Child, ChildId};

impl<'a> Planner<'a> {
    /// Returns whether the slot may have children: those of its kind that no slot knows may be its own, with the label of its
    /// previous name or from before there were labels.
    pub(super) fn may_exist(&self, slot: usize) -> bool {
        let resource = &self.node(slot).spec.resource;
        let is_unknown = |(id, child): (&ChildId, &Child)| self.graph.slot_of(id, child).is_none();
        let mut of_kind = self.observed.children.iter().filter(|(id, _)| id.resource == *resource);
        self.labelled(slot).next().is_some() || of_kind.any(is_unknown)
    }

    /// Returns whether a child that was created once lacks the labels of the slot, or its owner reference is outdated.
    pub(super) fn needs_metadata(&self, slot: usize, child: &Child) -> bool {
        child.label.as_ref() != Some(&self.node(slot).label) || child.is_outdated
    }

    /// Restores the labels of children that were created once.
    pub(super) fn keep_labels(&mut self, slot: usize, existing: &[(&'a ChildId, &'a Child)]) -> SlotState {
        let label = self.label(slot);
        let wrong = existing.iter().filter(|(id, child)| {
            self.needs_metadata(slot, child) && !child.is_terminating && !self.observed.refused.contains_key(*id)
        });
        let steps: Vec<_> =
            wrong.map(|(id, _)| Step::Label { slot, child: (*id).clone(), label: label.clone() }).collect();
        let refused = existing.iter().find_map(|(id, _)| self.observed.refused.get(*id));
        match (steps.is_empty(), refused) {
            (false, _) => {
                self.steps.extend(steps);
                SlotState::Pending
            }
            (true, Some(why)) => SlotState::Failed(why.clone()),
            (true, None) => self.condition(existing.iter().map(|(id, _)| *id)),
        }
    }

    /// A slot fails with the deletion of one of its children.
    pub(super) fn fail_undeleted(&mut self) {
        for (slot, id, _) in &self.labelled {
            if let Some(why) = self.observed.refused.get(*id) {
                self.states[*slot] = SlotState::Failed(why.clone());
            }
        }
    }

    /// Checks that a child of the slot may be deleted, to be created again: it serves until the new one may be created, unless
    /// what that waits for is itself being deleted, such as a volume that the child uses.
    pub(super) fn may_replace(&self, slot: usize) -> Result<(), String> {
        let node = self.node(slot);
        let is_going = |(id, child): (&ChildId, &Child)| child.is_terminating && self.is_wanted(id);
        let mut blocking = node.inputs.iter().chain(&node.after).filter(|other| self.data(**other) != Ok(true));
        let are_going = blocking.all(|other| self.labelled(*other).any(is_going));
        self.may_create(slot).or_else(|why| if are_going { Ok(()) } else { Err(why) })
    }

    /// Deletes a child, unless that is under way or was refused in this pass.
    pub(super) fn delete(&self, id: &ChildId, child: &Child, cause: Cause) -> Option<Step> {
        let version = Some(child.version.clone());
        let may_delete = !child.is_terminating && !self.observed.refused.contains_key(id);
        may_delete.then(|| Step::Delete { child: id.clone(), uid: child.uid.clone(), version, cause })
    }
}
