//! Mistakes that tests plant into the planner, to see that a property finds each of them.

use std::cell::Cell;

use super::SlotState;
use crate::observed::{Child, Run};

/// A mistake of the planner, or of its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    HeldTakenForAbsent,
    PruneBeforeReady,
    PruneAfterFailure,
    WaveSkipped,
    LabelLost,
    AdoptionForgotten,
    AnnotationUnread,
    ForeignTaken,
    MarkUnread,
    UnlabelledUnseen,
    EditLeft,
    AbsenceUnread,
    /// Children of unknown slots are pruned whatever the known slots say.
    PruneBeforeComplete,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Plants a mistake, or none, for the tests of this thread.
pub(super) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

impl Mistake {
    pub(super) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}

/// The decision of a planner with a mistake; `None` if it decides as usual.
pub(super) fn may_prune(state: &SlotState, run: &Run) -> Option<bool> {
    let is_decided = match state {
        SlotState::Held(_) => Mistake::HeldTakenForAbsent.is_planted(),
        SlotState::Failed(_) => Mistake::PruneAfterFailure.is_planted(),
        SlotState::NotReady(_) => Mistake::PruneBeforeReady.is_planted() && *run == Run::Returned,
        _ => false,
    };
    is_decided.then_some(true)
}

/// A child as it is observed, if it is.
pub(super) fn observed(child: &Child) -> Option<Child> {
    let seen = |is: bool, mistake: Mistake| is && !mistake.is_planted();
    let is_unseen = child.label.is_none() && Mistake::UnlabelledUnseen.is_planted();
    (!is_unseen).then(|| Child {
        is_protected: seen(child.is_protected, Mistake::AnnotationUnread),
        is_foreign: seen(child.is_foreign, Mistake::ForeignTaken),
        is_apart: seen(child.is_apart, Mistake::MarkUnread),
        ..child.clone()
    })
}
