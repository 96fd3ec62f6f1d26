//! The options of an add.

use super::{Lane, Urgency};
use crate::queue::reason::Reason;

/// The options of an add, named as in controller-runtime's priority queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddOptions {
    /// The lane in which the key waits for a worker.
    pub(crate) lane: Lane,
    /// The time at which the key runs if it is failing.
    pub(crate) urgency: Urgency,
    /// `true` if the key waits until it has had no such add for the debounce interval.
    pub(crate) debounced: bool,
}

impl AddOptions {
    /// An add that is not debounced.
    pub(crate) fn new(lane: Lane, urgency: Urgency) -> Self {
        Self { lane, urgency, debounced: false }
    }

    /// The options that follow from a reason, if nothing else is known.
    pub(super) fn of(reason: &Reason, lane: Lane) -> Self {
        Self { lane, urgency: Urgency::of(reason), debounced: reason.is_change() }
    }

    /// The options of one add instead of two: the more urgent one counts.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            lane: self.lane.min(other.lane),
            urgency: self.urgency.max(other.urgency),
            debounced: self.debounced && other.debounced,
        }
    }
}
