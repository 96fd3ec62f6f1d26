//! The number and the duration of calls since the start of the program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kooper_runtime::internal::call::attempt::{Attempt, Failure};
use kooper_runtime::internal::call::observer::{CallObserver, EndedCall, Outcome};
use kooper_runtime::internal::queue::NextRun;

/// Counts the calls of one controller.
#[derive(Debug, Default)]
pub struct CallTotals {
    ended: AtomicU64,
    failed: AtomicU64,
    /// In microseconds.
    took: AtomicU64,
}

impl CallTotals {
    /// The calls that have ended, those of them that have failed, and how long all of them took.
    #[must_use]
    pub fn read(&self) -> (u64, u64, Duration) {
        let took = Duration::from_micros(self.took.load(Ordering::Relaxed));
        (self.ended.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed), took)
    }

    fn add(&self, has_failed: bool, took: Duration) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(has_failed.into(), Ordering::Relaxed);
        self.took.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl CallObserver for CallTotals {
    fn returned(&self, call: &EndedCall<'_>, _: NextRun) {
        self.add(matches!(call.outcome, Outcome::Failure(..)), call.took);
    }

    fn deleted(&self, _: &Attempt, failure: Option<&Failure>, took: Duration) {
        self.add(failure.is_some(), took);
    }
}
