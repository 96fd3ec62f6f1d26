//! The keys of a queue, and what they wait for.

use std::time::Duration;

use super::Lane;
use super::entry::Timer;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reasons;

/// The number of keys in a queue, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// The keys that wait for a worker: events, retries, and background.
    pub lanes: [usize; 3],
    /// The requeues and delayed changes that are not due yet. A key may have both.
    pub delayed: usize,
    /// The failed keys that wait for their retry.
    pub retries: usize,
    /// All keys that the queue keeps state of, also those that run or have failed.
    pub known: usize,
}

/// A key, what it waits for, and the reasons of its next call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyView {
    /// The key.
    pub key: ObjectKey,
    /// The state in which it waits.
    pub waiting: Waiting,
    /// The reasons of its next call.
    pub reasons: Reasons,
}

/// The state of the queue that determines the next run of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Its run, if a worker processes it.
    pub run: Option<Run>,
    /// The time for which it has waited for a worker, and its lane.
    pub queued: Option<(Duration, Lane)>,
    /// The longest time that it waits for the caches to have the writes of its last call, if it does.
    pub parked: Option<Duration>,
    /// The time until it is added, zero if that is due, and what adds it.
    pub timer: Option<(Duration, Timer)>,
    /// The time until it is added because of changes, unless more of them follow.
    pub debounced: Option<Duration>,
    /// The failures in a row, if it has failed.
    pub failures: Option<u32>,
    /// The permission that it lacks, if so.
    pub forbidden: Option<ForbiddenKey>,
    /// The time until its resync.
    pub resync: Option<Duration>,
}

/// A run of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Nothing has happened since it began.
    Last,
    /// The key was added, or an event was received, since it began.
    MayFollow,
}

/// A key that lacks a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForbiddenKey {
    /// `true` if it is the next one to be tried of the keys that lack the permission.
    pub is_first: bool,
    /// The time until one of them is tried; `None` if one has succeeded.
    pub probe: Option<Duration>,
}
