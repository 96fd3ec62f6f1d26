//! The calls that run now, for metrics and probes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::health::Probe;
use crate::object::key::ObjectKey;

/// When each running call of a controller started, and how many are stuck.
#[derive(Debug)]
pub(crate) struct Busy {
    controller: Arc<str>,
    workers: usize,
    calls: Mutex<Calls>,
    next: AtomicU64,
    stuck: AtomicUsize,
}

/// The running calls by their start: the key of each, and its attempt.
type Calls = BTreeMap<(Instant, u64), (ObjectKey, u32)>;

/// A running call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) key: ObjectKey,
    pub(crate) attempt: u32,
    pub(crate) age: Duration,
}

/// A call that runs as long as this lives.
pub(crate) struct Guard {
    busy: Arc<Busy>,
    call: (Instant, u64),
}

impl Busy {
    pub(crate) fn new(controller: Arc<str>, workers: usize) -> Self {
        Self { controller, workers, calls: Mutex::default(), next: AtomicU64::new(0), stuck: AtomicUsize::new(0) }
    }

    pub(crate) fn start(self: &Arc<Self>, started: Instant, key: &ObjectKey, attempt: u32) -> Guard {
        let call = (started, self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(call, (key.clone(), attempt));
        Guard { busy: self.clone(), call }
    }

    /// How many calls run.
    pub(crate) fn calls(&self) -> f64 {
        self.lock().len() as f64
    }

    /// The seconds that all of them have run, in total.
    pub(crate) fn unfinished(&self) -> f64 {
        self.lock().keys().map(|(started, _)| started.elapsed().as_secs_f64()).sum()
    }

    /// The seconds that the longest one has run.
    pub(crate) fn longest(&self) -> f64 {
        self.lock().first_key_value().map_or(0.0, |((started, _), _)| started.elapsed().as_secs_f64())
    }

    /// The calls that run, the longest one first.
    pub(crate) fn running(&self) -> Vec<Running> {
        let calls = self.lock();
        let running = calls.iter().map(|((started, _), (key, attempt))| Running {
            key: key.clone(),
            attempt: *attempt,
            age: started.elapsed(),
        });
        running.collect()
    }

    /// How many have not ended after they were aborted.
    pub(crate) fn stuck(&self) -> usize {
        self.stuck.load(Ordering::SeqCst)
    }

    /// Counts a stuck call; returns how many there are.
    pub(super) fn left_behind(&self) -> usize {
        self.stuck.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Counts a stuck call that has ended.
    pub(super) fn came_back(&self) {
        self.stuck.fetch_sub(1, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.busy.lock().remove(&self.call);
    }
}

impl Probe for Busy {
    fn ready(&self) -> Result<Option<String>, String> {
        let stuck = self.stuck();
        Ok((stuck > 0).then(|| format!("{}: {stuck} handler calls are stuck", self.controller)))
    }

    fn alive(&self) -> Result<(), String> {
        let stuck = self.stuck();
        if stuck >= 2 * self.workers {
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
        let busy = Arc::new(Busy::new("shop".into(), 2));
        let key = |name: &str| ObjectKey::namespaced("shop", name);
        let first = busy.start(Instant::now(), &key("a"), 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        let again = [busy.start(Instant::now(), &key("b"), 7), busy.start(Instant::now(), &key("b"), 7)];
        let running =
            |name: &str, attempt, seconds| Running { key: key(name), attempt, age: Duration::from_secs(seconds) };
        assert_eq!(busy.running(), [running("a", 1, 3), running("b", 7, 0), running("b", 7, 0)]);
        drop(first);
        assert_eq!(busy.running().len(), 2);
        drop(again);
        assert_eq!(busy.running(), []);
    }

    #[test]
    fn the_liveness_probe_fails_when_every_worker_and_its_replacement_is_stuck() {
        let busy = Busy::new("shop".into(), 2);
        for stuck in 1..=3 {
            assert_eq!(busy.left_behind(), stuck);
            assert_eq!(busy.alive(), Ok(()), "{stuck} of 4");
            assert!(busy.ready().is_ok_and(|remark| remark.is_some()), "it is reported, and the controller continues");
        }
        busy.left_behind();
        assert!(busy.alive().is_err_and(|why| why.starts_with("shop: every worker and every replacement is stuck")));
        busy.came_back();
        assert_eq!(busy.alive(), Ok(()));
    }
}
