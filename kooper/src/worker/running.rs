//! The calls that run now, for the metrics about them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// When each running call started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    calls: Arc<Mutex<BTreeSet<(Instant, u64)>>>,
    next: Arc<AtomicU64>,
}

/// A call that runs as long as this lives.
pub(crate) struct Guard {
    running: Running,
    call: (Instant, u64),
}

impl Running {
    pub(crate) fn start(&self, started: Instant) -> Guard {
        let call = (started, self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(call);
        Guard { running: self.clone(), call }
    }

    /// How many run.
    pub(crate) fn count(&self) -> f64 {
        self.lock().len() as f64
    }

    /// The seconds that all of them have run, together.
    pub(crate) fn unfinished(&self) -> f64 {
        self.lock().iter().map(|(started, _)| started.elapsed().as_secs_f64()).sum()
    }

    /// The seconds that the longest has run.
    pub(crate) fn longest(&self) -> f64 {
        self.lock().first().map_or(0.0, |(started, _)| started.elapsed().as_secs_f64())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(Instant, u64)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.running.lock().remove(&self.call);
    }
}
