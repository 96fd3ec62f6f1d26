//! The token that controls whether handlers may run.

use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::fence;
use crate::client::RequestLayer;
use crate::clock::{self, Clock, Moment};

/// Timers use a clock that stops while the machine is suspended. The right clock
/// is checked at least this often.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The leadership of this process for a controller.
///
/// It expires by the local clock, independently of the network, the API server and the
/// runtime. Clones share their state.
#[derive(Clone)]
pub struct Leadership {
    /// `None` without leader election: every process is the leader.
    token: Option<Arc<Token>>,
}

struct Token {
    clock: Arc<dyn Clock>,
    /// The time until which it is valid, in nanoseconds of the clock; 0 if it is not.
    until: AtomicU64,
    /// The time from which another process may lead; 0 before the first term. It stays
    /// when the token is given up.
    end: AtomicU64,
    /// Counts how often it became valid: a new term does not continue the old one.
    term: AtomicU64,
    changed: watch::Sender<()>,
}

impl Leadership {
    /// The leadership without leader election: always held.
    #[must_use]
    pub fn always() -> Self {
        Self { token: None }
    }

    /// A leadership that is not held until an elector sets it.
    #[must_use]
    pub fn none() -> Self {
        Self::by(clock::system())
    }

    pub(super) fn by(clock: Arc<dyn Clock>) -> Self {
        let (until, end, term) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self { token: Some(Arc::new(Token { clock, until, end, term, changed: watch::Sender::new(()) })) }
    }

    /// Returns `true` if it is held for a time, and not always.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.token.is_some()
    }

    /// Returns `true` if this process is the leader now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.time_left().is_none_or(|left| !left.is_zero())
    }

    /// The time until leadership expires unless it is renewed: zero if this process
    /// is not the leader, `None` without leader election.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let token = self.token.as_ref()?;
        let until = Duration::from_nanos(token.until.load(Ordering::Acquire));
        Some(until.saturating_sub(token.clock.now()))
    }

    /// Waits until this process is not the leader; forever without leader election.
    #[cfg(test)]
    pub async fn lost(&self) {
        self.ended(self.term()).await;
    }

    /// Waits until this process is the leader.
    pub async fn held(&self) {
        let Some(token) = &self.token else { return };
        let mut changed = token.changed.subscribe();
        // Not `is_held`, which reads the clock last: `set` sends no message if it extends an end that has not passed by the
        // clock, so this must not wait because of a later reading.
        while nanos(token.clock.now()) >= token.until.load(Ordering::Acquire) {
            drop(changed.changed().await);
        }
    }

    /// The layer of a client that only sends requests while leadership is held.
    /// Otherwise a request fails at once; a running one, its body or its watch is
    /// aborted when the token expires. `None` without leader election.
    ///
    /// A request that was already sent cannot be recalled.
    #[must_use]
    pub fn fence(&self) -> Option<RequestLayer> {
        self.token.is_some().then(|| fence::layer(self.clone()))
    }

    /// The number of this process's current term.
    pub(super) fn term(&self) -> u64 {
        self.token.as_ref().map_or(0, |token| token.term.load(Ordering::Acquire))
    }

    /// Returns `true` if the term continues.
    pub(super) fn is_term(&self, term: u64) -> bool {
        self.is_held() && self.term() == term
    }

    /// Waits until the term is over. Whenever this is polled it reads the clock: a timer
    /// may be late.
    pub(super) async fn ended(&self, term: u64) {
        let Some(token) = &self.token else { return pending().await };
        let mut changed = token.changed.subscribe();
        let mut ended = pin!(async {
            while self.is_term(term) {
                let left = self.time_left().unwrap_or(CHECK_INTERVAL).min(CHECK_INTERVAL);
                // The sender is a field of `self`, so it exists.
                drop(timeout(left, changed.changed()).await);
            }
        });
        poll_fn(|context| if self.is_term(term) { ended.as_mut().poll(context) } else { Poll::Ready(()) }).await;
    }

    /// The clock of the token; the system's without leader election.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.token.as_ref().map_or_else(clock::system, |token| Arc::clone(&token.clock))
    }

    /// Sets the time until which it is valid; `None` drops it.
    pub fn set(&self, until: Option<Moment>) {
        let Some(token) = &self.token else { return };
        let until = until.map_or(0, nanos);
        if until > 0 {
            if !self.is_held() {
                token.term.fetch_add(1, Ordering::AcqRel);
            }
            token.end.store(until, Ordering::Release);
        }
        let known = token.until.swap(until, Ordering::AcqRel);
        // A task that waits for the end reads it again when it has passed, so only an end that may have been observed is
        // announced.
        let is_extended = known < until && nanos(token.clock.now()) < known;
        if known != until && !is_extended {
            token.changed.send_replace(());
        }
    }

    /// Drops it because another process may lead already.
    pub fn cut(&self) {
        if let Some(token) = &self.token {
            token.end.fetch_min(nanos(token.clock.now()), Ordering::AcqRel);
        }
        self.set(None);
    }

    /// When the current or the last term ends; `None` if there was none.
    pub(super) fn end(&self) -> Option<Moment> {
        let end = self.token.as_ref()?.end.load(Ordering::Acquire);
        (end > 0).then(|| Duration::from_nanos(end))
    }

    /// Receives a message when the token changes, unless it is extended before its end.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.token.as_ref().map_or_else(|| watch::channel(()).1, |token| token.changed.subscribe())
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("held", &self.is_held()).field("time_left", &self.time_left()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use futures_util::FutureExt;
    use parking_lot::Mutex;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_renewal_in_time_wakes_nobody() {
        let leadership = Leadership::none();
        let (now, mut changes) = (leadership.clock().now(), leadership.changes());
        let mut wakes = |until: Option<Moment>| {
            leadership.set(until);
            let wakes = changes.has_changed().unwrap();
            changes.mark_unchanged();
            wakes
        };
        assert!(wakes(Some(now + HOUR)));
        assert!(!wakes(Some(now + HOUR * 2)));
        assert!(wakes(Some(now + HOUR)), "it ends sooner");
        assert!(wakes(Some(now)));
        assert!(wakes(Some(now + HOUR)), "it had ended");
        assert!(wakes(None) && wakes(Some(now + HOUR)));
    }

    /// A clock whose next reading is late: meanwhile another thread extends leadership.
    struct ReadLate {
        hour: AtomicU32,
        extended: Mutex<Option<Leadership>>,
    }

    impl Clock for ReadLate {
        fn now(&self) -> Moment {
            let extended = self.extended.lock().take();
            if let Some(leadership) = extended {
                leadership.set(Some(HOUR * 4));
                self.hour.store(3, Ordering::SeqCst);
            }
            HOUR * self.hour.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn who_reads_the_clock_after_the_end_that_was_just_extended_does_not_wait() {
        let clock = Arc::new(ReadLate { hour: AtomicU32::new(1), extended: Mutex::new(None) });
        let leadership = Leadership::by(clock.clone());
        leadership.set(Some(HOUR * 2));
        *clock.extended.lock() = Some(leadership.clone());
        assert_eq!(leadership.held().now_or_never(), Some(()));
    }
}
