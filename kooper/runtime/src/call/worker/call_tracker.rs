//! The calls that run now, for metrics and probes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::executor::PollTime;
use crate::leader::RunningCalls;
use crate::metrics::health::Probe;
use crate::object::key::ObjectKey;

/// A call that runs so long without an `.await` blocks its thread.
const BLOCKS: Duration = Duration::from_secs(3);

/// When each running call of a controller started, and which are stuck.
#[derive(Debug)]
pub(crate) struct CallTracker {
    controller: Arc<str>,
    workers: usize,
    calls: Mutex<Calls>,
    /// Of `init`; it lives as long as its future.
    init: Mutex<Weak<PollTime>>,
    next: AtomicU64,
}

/// The running calls by their start.
type Calls = BTreeMap<(Instant, u64), Entry>;

#[derive(Debug)]
struct Entry {
    key: ObjectKey,
    attempt: u32,
    polls: Arc<PollTime>,
    /// It has not ended after it was aborted.
    is_left_behind: bool,
}

/// A running call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The key of the object that is handled.
    pub key: ObjectKey,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The time since the call started.
    pub age: Duration,
}

/// A call that runs as long as this lives.
pub(crate) struct TrackedCall {
    call_tracker: Arc<CallTracker>,
    call: (Instant, u64),
}

impl CallTracker {
    pub(crate) fn new(controller: Arc<str>, workers: usize) -> Self {
        Self { controller, workers, calls: Mutex::default(), init: Mutex::default(), next: AtomicU64::new(0) }
    }

    pub(crate) fn start(
        self: &Arc<Self>,
        started: Instant,
        key: &ObjectKey,
        attempt: u32,
        polls: Arc<PollTime>,
    ) -> TrackedCall {
        let call = (started, self.next.fetch_add(1, Ordering::Relaxed));
        self.calls.lock().insert(call, Entry { key: key.clone(), attempt, polls, is_left_behind: false });
        TrackedCall { call_tracker: self.clone(), call }
    }

    /// Remembers a call of `init`.
    pub(crate) fn initializes(&self, polls: &Arc<PollTime>) {
        *self.init.lock() = Arc::downgrade(polls);
    }

    /// The last call of `init`, unless it has ended.
    fn init(&self) -> Option<Arc<PollTime>> {
        self.init.lock().upgrade()
    }

    /// Returns `true` if `init` still runs, even after it was aborted.
    pub(crate) fn is_initializing(&self) -> bool {
        self.init().is_some()
    }

    /// Returns the number of running calls.
    pub(crate) fn calls(&self) -> f64 {
        self.calls.lock().len() as f64
    }

    /// The seconds that all of them have run, in total.
    pub(crate) fn unfinished(&self) -> f64 {
        // Read once: there may be as many daemons as objects.
        let now = Instant::now();
        self.calls.lock().keys().map(|(started, _)| now.saturating_duration_since(*started).as_secs_f64()).sum()
    }

    /// The seconds that the longest one has run.
    pub(crate) fn longest(&self) -> f64 {
        self.calls.lock().first_key_value().map_or(0.0, |((started, _), _)| started.elapsed().as_secs_f64())
    }

    /// The calls that run, the longest one first.
    pub(crate) fn running(&self) -> Vec<Running> {
        let calls = self.calls.lock();
        let running = calls.iter().map(|((started, _), call)| Running {
            key: call.key.clone(),
            attempt: call.attempt,
            age: started.elapsed(),
        });
        running.collect()
    }

    /// Returns the number of calls that block their threads, or have not ended after
    /// they were aborted.
    pub(crate) fn stuck(&self) -> usize {
        let is_stuck = |call: &&Entry| call.is_left_behind || call.polls.current() >= BLOCKS;
        self.calls.lock().values().filter(is_stuck).count()
    }

    /// Returns the number of calls that have not ended after they were aborted.
    pub(crate) fn left_behind(&self) -> usize {
        self.calls.lock().values().filter(|call| call.is_left_behind).count()
    }
}

impl RunningCalls for CallTracker {
    fn count(&self) -> usize {
        self.calls.lock().len() + usize::from(self.is_initializing())
    }

    fn longest_poll(&self) -> Duration {
        let init = self.init().map(|polls| polls.current());
        self.calls.lock().values().map(|call| call.polls.current()).chain(init).max().unwrap_or_default()
    }
}

impl TrackedCall {
    /// Notes that the call has not ended after it was aborted; returns how many such
    /// calls there are.
    pub(super) fn leave_behind(&self) -> usize {
        if let Some(call) = self.call_tracker.calls.lock().get_mut(&self.call) {
            call.is_left_behind = true;
        }
        self.call_tracker.left_behind()
    }
}

impl Drop for TrackedCall {
    fn drop(&mut self) {
        self.call_tracker.calls.lock().remove(&self.call);
    }
}

impl Probe for CallTracker {
    fn name(&self) -> String {
        format!("{}: handler calls", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let stuck = self.stuck();
        Ok((stuck > 0).then(|| format!("{}: {stuck} handler calls are stuck", self.controller)))
    }

    fn alive(&self) -> Result<(), String> {
        let stuck = self.left_behind();
        if stuck >= self.workers.saturating_mul(2) {
            return Err(format!(
                "{}: every worker and every replacement is stuck in a handler call ({stuck})",
                self.controller
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn running_calls_are_known_with_their_age_until_they_end() {
        let call_tracker = Arc::new(CallTracker::new("shop".into(), 2));
        let key = |name: &str| ObjectKey::namespaced("shop", name);
        let start = |name: &str, attempt| call_tracker.start(Instant::now(), &key(name), attempt, Arc::default());
        let first = start("a", 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        let again = [start("b", 7), start("b", 7)];
        let running =
            |name: &str, attempt, seconds| Running { key: key(name), attempt, age: Duration::from_secs(seconds) };
        assert_eq!(call_tracker.running(), [running("a", 1, 3), running("b", 7, 0), running("b", 7, 0)]);
        drop(first);
        assert_eq!(call_tracker.running().len(), 2);
        drop(again);
        assert_eq!(call_tracker.running(), []);
    }

    #[test]
    fn the_liveness_probe_fails_when_every_worker_and_its_replacement_is_stuck() {
        let call_tracker = Arc::new(CallTracker::new("shop".into(), 2));
        let start = || call_tracker.start(Instant::now(), &ObjectKey::namespaced("shop", "a"), 1, Arc::default());
        let mut calls = Vec::new();
        for stuck in 1..=3 {
            calls.push(start());
            assert_eq!(calls.last().map(TrackedCall::leave_behind), Some(stuck));
            assert_eq!(call_tracker.alive(), Ok(()), "{stuck} of 4");
            assert!(
                call_tracker.ready().is_ok_and(|remark| remark.is_some()),
                "it is reported, and the controller continues"
            );
        }
        calls.push(start());
        assert_eq!(calls.last().map(TrackedCall::leave_behind), Some(4));
        assert!(
            call_tracker.alive().is_err_and(|why| why.starts_with("shop: every worker and every replacement is stuck"))
        );
        calls.clear();
        assert_eq!(call_tracker.alive(), Ok(()));
    }
}
