//! The input and the result of a scenario.

use std::time::Duration;

use super::network::{Answer, Request};
use super::rng::SimRng;
use crate::hash::Shard;
use crate::map::MapRecord;
use crate::session::SlotRecord;

/// A fault, and how long it lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disruption {
    pub(super) who: usize,
    pub(super) kind: DisruptionKind,
    pub(super) lasts: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DisruptionKind {
    Partition,
    Pause,
    SlowRequests,
    SlowAnswers,
    LostAnswers,
    Errors,
    BadWatch,
    Stop,
    Crash,
    /// No replica reaches the API server.
    Outage,
    DeleteMap,
    DeleteSlot,
    /// A person moves a shard.
    Move,
    /// A person drains the replica.
    Drain,
    /// A person undoes all of it.
    Undo,
}

impl Disruption {
    /// A scenario deletes maps or slots, because the protocol does not survive both at once.
    pub(super) fn any(rng: &mut SimRng, replicas: usize, lease: Duration, deleted: DisruptionKind) -> Self {
        let kinds = [
            DisruptionKind::Partition,
            DisruptionKind::Pause,
            DisruptionKind::SlowRequests,
            DisruptionKind::SlowAnswers,
            DisruptionKind::LostAnswers,
            DisruptionKind::Errors,
            DisruptionKind::BadWatch,
            DisruptionKind::Stop,
            DisruptionKind::Crash,
            DisruptionKind::Outage,
            deleted,
            DisruptionKind::Move,
            DisruptionKind::Move,
            DisruptionKind::Drain,
            DisruptionKind::Undo,
        ];
        let kind = kinds[rng.below(kinds.len())];
        let lasts = match kind {
            // Others wait for a lease after it.
            DisruptionKind::Stop => lease + rng.within(lease),
            DisruptionKind::DeleteSlot | DisruptionKind::Move | DisruptionKind::Drain | DisruptionKind::Undo => {
                Duration::ZERO
            }
            _ => rng.within(lease * 2),
        };
        Self { who: rng.below(replicas), kind, lasts }
    }
}

/// The result of a scenario.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Summary {
    /// Shards that have changed their owner.
    pub(super) moves: u64,
    /// Those that a living owner has handed over.
    pub(super) handed_over: u64,
    pub(super) calls: u64,
    /// Writes of calls that the fence has stopped.
    pub(super) fenced: u64,
    pub(super) requests: u64,
    /// The writes of sessions among them.
    pub(super) renewals: u64,
    pub(super) slots_read: usize,
    pub(super) conflicts: u64,
    /// The time from the end of the last fault until every shard was owned, as a part of the bound.
    pub(super) recovered: f64,
}

#[derive(Debug)]
pub(super) enum SimEvent {
    Process(usize, ProcessEvent),
    Arrive(usize, usize, u64, Request),
    Fault(usize),
    Restart(usize),
}

/// An event of a process, which handles it after a pause.
#[derive(Debug)]
pub(super) enum ProcessEvent {
    Wake(u64),
    Answer(usize, u64, Option<Answer>),
    MapDelivered(MapRecord),
    SlotDelivered(u8, SlotRecord),
    Warmed(Shard),
    Begin,
    /// A write of a call reaches the fence.
    Write(u64),
    End(u64),
}
