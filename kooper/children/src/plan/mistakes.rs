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
    PruneBeforeComplete,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Plants a mistake, or none, for the tests of this thread.
pub(super) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

fn is_planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// The decision of a planner with a mistake; `None` if it decides as usual.
pub(super) fn may_prune(state: &SlotState, run: &Run) -> Option<bool> {
    let is_decided = match state {
        SlotState::Held(_) => is_planted(Mistake::HeldTakenForAbsent),
        SlotState::Failed(_) => is_planted(Mistake::PruneAfterFailure),
        SlotState::NotReady(_) => is_planted(Mistake::PruneBeforeReady) && *run == Run::Returned,
        _ => false,
    };
    is_decided.then_some(true)
}

/// Children of unknown slots are pruned whatever the known slots say.
pub(super) fn prunes_early() -> bool {
    is_planted(Mistake::PruneBeforeComplete)
}

pub(super) fn skips_waves() -> bool {
    is_planted(Mistake::WaveSkipped)
}

pub(super) fn loses_labels() -> bool {
    is_planted(Mistake::LabelLost)
}

pub(super) fn forgets_adoption() -> bool {
    is_planted(Mistake::AdoptionForgotten)
}

pub(super) fn leaves_edits() -> bool {
    is_planted(Mistake::EditLeft)
}

pub(super) fn overlooks_absence() -> bool {
    is_planted(Mistake::AbsenceUnread)
}

/// A child as it is observed, if it is.
pub(super) fn observed(child: &Child) -> Option<Child> {
    let seen = |is: bool, mistake: Mistake| is && !is_planted(mistake);
    let is_unseen = child.label.is_none() && is_planted(Mistake::UnlabelledUnseen);
    (!is_unseen).then(|| Child {
        is_protected: seen(child.is_protected, Mistake::AnnotationUnread),
        is_foreign: seen(child.is_foreign, Mistake::ForeignTaken),
        is_apart: seen(child.is_apart, Mistake::MarkUnread),
        ..child.clone()
    })
}
