//! The input and the result of a scenario.

use std::time::Duration;

use super::Mutant;
use super::rng::SimRng;
use crate::leader::lease_state::{LeaseWrite, Record};

pub(super) struct Scenario {
    /// The lease duration, renew deadline and retry period.
    pub(super) terms: [Duration; 3],
    pub(super) candidates: usize,
    pub(super) faults: Vec<(Duration, Disruption)>,
    pub(super) mutant: Option<Mutant>,
}

/// A fault of one candidate, and how long it lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disruption {
    pub(super) who: usize,
    /// `true` if it affects the leader at that time instead of `who`.
    pub(super) leader: bool,
    pub(super) kind: DisruptionKind,
    pub(super) lasts: Duration,
}

#[derive(Debug, Clone, Copy)]
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
    /// A handler blocks its thread.
    Block,
}

impl Disruption {
    pub(super) fn any(rng: &mut SimRng, candidates: usize, lease: Duration) -> Self {
        const ALL: [DisruptionKind; 10] = [
            DisruptionKind::Partition,
            DisruptionKind::Pause,
            DisruptionKind::SlowRequests,
            DisruptionKind::SlowAnswers,
            DisruptionKind::LostAnswers,
            DisruptionKind::Errors,
            DisruptionKind::BadWatch,
            DisruptionKind::Stop,
            DisruptionKind::Crash,
            DisruptionKind::Block,
        ];
        let kind = ALL[rng.below(ALL.len() as u64) as usize];
        let (who, leader) = (rng.below(candidates as u64) as usize, rng.chance(0.6));
        Self { who, leader, kind, lasts: rng.within(lease * 2) }
    }
}

/// The result of a scenario.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Summary {
    pub(super) lease: Duration,
    pub(super) terms: u64,
    /// The writes of handlers that were sent.
    pub(super) works: u64,
    /// The writes that the fence stopped.
    pub(super) fenced: u64,
    /// The writes that it aborted before they were sent.
    pub(super) ended: u64,
    /// The writes that arrived after the end of the term in which they were sent.
    pub(super) late: u64,
    /// The writes that arrived after another process had become the leader.
    pub(super) overtaken: u64,
    /// The longest time between the end of a term and the arrival of a write that
    /// was sent in it.
    pub(super) tail: Duration,
    /// The processes that were ended because a handler was blocked at the end of a term.
    pub(super) outlived: u64,
    pub(super) commits: u64,
    pub(super) conflicts: u64,
    /// The time between the end of the last fault and the next leader.
    pub(super) recovered: Duration,
}

#[derive(Debug)]
pub(super) enum SimEvent {
    Wake(usize, u64),
    Arrive(usize, u64, Option<LeaseWrite>),
    /// `None` if the request fails, or its time is over.
    Answer(usize, u64, Option<Result<Option<Record>, bool>>),
    Opened(usize, u64),
    Seen(usize, u64, Option<Record>),
    Closed(usize, u64),
    Work(usize),
    /// A handler's write reaches the fence (`Write`), is sent (`SendWrite`) and
    /// reaches the server (`CommitWrite`). The last number is that of the term.
    Write(usize, usize),
    SendWrite(usize, usize, Duration),
    CommitWrite(usize),
    /// The watchdog checks the term, by its number.
    Overdue(usize, usize),
    Fault(usize),
    Restart(usize),
    Healed,
}
