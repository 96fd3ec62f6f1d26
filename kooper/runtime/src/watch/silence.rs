//! The longest time without anything from a source.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Limits the time without an event to a duration.
///
/// Unlike a [`timeout`](tokio::time::timeout) for each event, it has one timer, and
/// sets it only when it fires: most events arrive long before, and one after the
/// other.
pub(super) struct Silence {
    longest: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, timer: Box::pin(sleep(longest)) }
    }

    /// Waits for the next event; `None` if it takes too long.
    pub(super) async fn limit<T>(&mut self, event: impl Future<Output = T>) -> Option<T> {
        let mut event = pin!(event);
        let started = Instant::now();
        loop {
            tokio::select! {
                biased;
                event = &mut event => return Some(event),
                () = &mut self.timer => {}
            }
            // It was set for an earlier event. A sum that overflows is never reached.
            match started.checked_add(self.longest) {
                Some(end) if end > Instant::now() => self.timer.as_mut().reset(end),
                Some(_) => return None,
                None => self.timer = Box::pin(sleep(self.longest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn each_event_has_the_whole_time() {
        let mut silence = Silence::new(10 * SECOND);
        for _ in 0..5 {
            assert!(silence.limit(sleep(9 * SECOND)).await.is_some());
        }
        // Time between two calls of `limit` does not count.
        sleep(20 * SECOND).await;
        assert!(silence.limit(sleep(9 * SECOND)).await.is_some());
        let started = Instant::now();
        assert!(silence.limit(std::future::pending::<()>()).await.is_none());
        assert_eq!(started.elapsed().as_secs(), 10);
        assert!(silence.limit(sleep(9 * SECOND)).await.is_some(), "it is of use again");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_any_time_is_allowed() {
        let mut silence = Silence::new(Duration::MAX);
        assert!(silence.limit(sleep(Duration::from_secs(100 * 365 * 86_400))).await.is_some());
    }
}
