//! Ends a process whose handlers outlive a term.
//!
//! A handler that blocks its thread cannot be stopped from inside the process. At the end
//! of the term another replica may begin, so the process has to end. This decides it on a
//! thread of its own, which depends on no other thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Leadership;
use super::leadership::CHECK_INTERVAL;

/// A call that runs so long without an `.await`, and so long after the end of the term,
/// blocks its thread: it cannot be stopped.
const BLOCKS: Duration = Duration::from_millis(50);

/// The interval at which calls are checked after the end of a term.
const LOOK: Duration = Duration::from_millis(10);

/// The running calls of a controller.
pub trait RunningCalls: Send + Sync {
    /// The number of running calls.
    fn count(&self) -> usize;

    /// The longest time for which one of them has been running without an `.await`.
    fn longest_poll(&self) -> Duration;
}

/// A controller with leader election.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it is only passed on")]
pub struct Elected {
    pub controller: Arc<str>,
    pub leadership: Leadership,
    pub calls: Arc<dyn RunningCalls>,
    /// The time between the end of a term and the end of its Lease.
    pub margin: Duration,
}

/// Watches the terms of a process until it is dropped.
#[derive(Debug)]
#[must_use = "it watches until it is dropped"]
pub struct Watchdog {
    _stop: DropGuard,
}

impl Watchdog {
    /// Calls `end` with the name of a controller whose calls outlive its term.
    ///
    /// # Errors
    /// When the system has no thread or file left.
    pub fn start(elected: Vec<Elected>, end: impl FnOnce(&str) + Send + 'static) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        if !elected.is_empty() {
            let runtime = Builder::new_current_thread().enable_time().build()?;
            let watch = move || {
                let overdue = select_all(elected.iter().map(|one| one.overdue().boxed()));
                let (controller, ..) = runtime.block_on(stopped.run_until_cancelled(overdue))?;
                end(&controller);
                Some(())
            };
            std::thread::Builder::new().name("kooper-watchdog".into()).spawn(watch)?;
        }
        Ok(Self { _stop: stop.drop_guard() })
    }
}

impl Elected {
    /// Waits until calls outlive a term; returns the controller's name.
    async fn overdue(&self) -> Arc<str> {
        let mut changes = self.leadership.changes();
        loop {
            changes.mark_unchanged();
            let now = self.leadership.clock().now();
            let end = self.leadership.end();
            match end.and_then(|end| now.checked_sub(end)) {
                Some(over) if self.calls.count() > 0 => {
                    // Calls that await have been cancelled, and end before the Lease does.
                    let blocked = over >= BLOCKS && self.calls.longest_poll() >= BLOCKS;
                    if blocked || over >= self.margin * 5 / 6 {
                        return Arc::clone(&self.controller);
                    }
                    sleep(LOOK).await;
                }
                over => {
                    let left = end.filter(|_| over.is_none()).map_or(CHECK_INTERVAL, |end| end.saturating_sub(now));
                    drop(timeout(left.min(CHECK_INTERVAL), changes.changed()).await);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::mpsc;

    use super::*;
    use crate::clock;

    /// Calls of a test: how many there are, and how long one polls.
    #[derive(Default)]
    struct Calls(Mutex<(usize, Duration)>);

    impl RunningCalls for Calls {
        fn count(&self) -> usize {
            self.0.lock().0
        }

        fn longest_poll(&self) -> Duration {
            self.0.lock().1
        }
    }

    const MARGIN: Duration = Duration::from_millis(1_200);

    fn elected(leadership: &Leadership, calls: &Arc<Calls>) -> Elected {
        Elected { controller: "shop".into(), leadership: leadership.clone(), calls: calls.clone(), margin: MARGIN }
    }

    /// Until when a term of this length, which begins now, lasts.
    fn term(leadership: &Leadership, length: Duration) {
        leadership.set(Some(leadership.clock().now() + length));
    }

    #[test]
    fn a_blocked_call_ends_the_process_at_the_end_of_the_term_and_not_before() {
        let (leadership, calls) = (Leadership::by(clock::system()), Arc::<Calls>::default());
        let (sender, ended) = mpsc::channel();
        let end = {
            let leadership = leadership.clone();
            move |name: &str| sender.send((name.to_owned(), leadership.is_held())).unwrap()
        };
        let _watchdog = Watchdog::start(vec![elected(&leadership, &calls)], end).unwrap();
        *calls.0.lock() = (1, Duration::from_secs(60));
        term(&leadership, Duration::from_millis(300));
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(("shop".to_owned(), false)));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_await_have_until_shortly_before_the_lease_ends() {
        let (leadership, calls) = (Leadership::by(clock::system()), Arc::<Calls>::default());
        let shop = elected(&leadership, &calls);
        let mut overdue = std::pin::pin!(shop.overdue());
        // Without a call nothing is overdue, in no term and after one.
        assert!(timeout(Duration::from_secs(60), &mut overdue).await.is_err());
        term(&leadership, Duration::from_secs(10));
        assert!(timeout(Duration::from_secs(60), &mut overdue).await.is_err());
        *calls.0.lock() = (1, Duration::ZERO);
        // A term that is renewed does not end.
        for _ in 0..10 {
            term(&leadership, Duration::from_secs(10));
            assert!(timeout(Duration::from_secs(5), &mut overdue).await.is_err());
        }
        assert!(timeout(Duration::from_secs(5), &mut overdue).await.is_err(), "it is over only now");
        assert!(timeout(MARGIN, &mut overdue).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_another_replica_took_ends_at_once_and_one_that_was_given_up_in_time() {
        let (leadership, calls) = (Leadership::by(clock::system()), Arc::<Calls>::default());
        let shop = elected(&leadership, &calls);
        *calls.0.lock() = (1, Duration::from_secs(60));
        term(&leadership, Duration::from_secs(10));
        leadership.set(None);
        assert!(timeout(Duration::from_secs(9), shop.overdue()).await.is_err(), "no other replica begins before");
        assert!(timeout(Duration::from_secs(2), shop.overdue()).await.is_ok());
        term(&leadership, Duration::from_secs(10));
        leadership.cut();
        assert!(timeout(Duration::from_millis(100), shop.overdue()).await.is_ok());
    }
}
