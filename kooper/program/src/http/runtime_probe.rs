//! A liveness check of the program's runtime.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;

/// A runtime that does not run a task within this time is stalled.
const STALLED: Duration = Duration::from_secs(60);

/// Runs a tiny task on the runtime at each probe. Nothing happens between
/// probes, so an idle program stays idle.
pub(super) struct RuntimeProbe {
    runtime: Handle,
    /// When the task that waits to run was spawned; there is one at most.
    waiting: Arc<Mutex<Option<Instant>>>,
}

impl RuntimeProbe {
    pub(super) fn new(runtime: Handle) -> Self {
        Self { runtime, waiting: Arc::default() }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.check_at(Instant::now())
    }

    fn check_at(&self, now: Instant) -> Result<(), String> {
        let mut waiting = self.waiting.lock();
        let Some(since) = *waiting else {
            *waiting = Some(now);
            let mark = Arc::clone(&self.waiting);
            self.runtime.spawn(async move { *mark.lock() = None }.boxed());
            return Ok(());
        };
        match now.saturating_duration_since(since) {
            stalled if stalled > STALLED => Err(format!(
                "the runtime has run no task for {} s: a handler blocks its threads; use tokio::task::spawn_blocking",
                stalled.as_secs()
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runtime_that_runs_tasks_is_alive() {
        let runtime_probe = RuntimeProbe::new(Handle::current());
        let start = Instant::now();
        assert_eq!(runtime_probe.check_at(start), Ok(()));
        tokio::task::yield_now().await;
        assert_eq!(runtime_probe.check_at(start + Duration::from_secs(600)), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_that_is_blocked_is_not_alive_until_it_runs_again() {
        let runtime_probe = RuntimeProbe::new(Handle::current());
        let start = Instant::now();
        // Without an await, this test is the handler that blocks the thread.
        assert_eq!(runtime_probe.check_at(start), Ok(()));
        assert_eq!(runtime_probe.check_at(start + Duration::from_secs(60)), Ok(()));
        assert_eq!(
            runtime_probe.check_at(start + Duration::from_secs(61)),
            Err("the runtime has run no task for 61 s: a handler blocks its threads; use tokio::task::spawn_blocking"
                .to_owned())
        );
        tokio::task::yield_now().await;
        assert_eq!(runtime_probe.check_at(start + Duration::from_secs(62)), Ok(()));
    }
}
