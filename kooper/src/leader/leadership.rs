//! The token that says whether handlers may run.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::clock::{self, Clock, Moment};
use super::fence;

/// Sleeping goes by a clock that stands still while the machine is suspended:
/// it is looked at the right one at least so often.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Whether this process leads, and for how long at least.
///
/// A clone is the same token. It expires by itself: it is read against the
/// local clock, whatever the network, the API server and the runtime do.
#[derive(Clone)]
pub struct Leadership {
    /// `None`: there is no election, everybody leads.
    token: Option<Arc<Token>>,
}

struct Token {
    clock: Arc<dyn Clock>,
    /// Nanoseconds of the clock until which it is valid; 0 for not at all.
    until: AtomicU64,
    /// Counts the times that it became valid: a new term is not the old one
    /// going on.
    term: AtomicU64,
    changed: watch::Sender<()>,
}

impl Leadership {
    /// There is no election: always held.
    pub(crate) fn always() -> Self {
        Self { token: None }
    }

    /// Not held until an elector says so.
    pub(crate) fn none() -> Self {
        Self::by(clock::system())
    }

    pub(super) fn by(clock: Arc<dyn Clock>) -> Self {
        let (until, term, changed) = (AtomicU64::new(0), AtomicU64::new(0), watch::Sender::new(()));
        Self { token: Some(Arc::new(Token { clock, until, term, changed })) }
    }

    /// Whether this process leads now.
    pub fn is_held(&self) -> bool {
        self.time_left().is_none_or(|left| !left.is_zero())
    }

    /// How long it leads at least, unless it renews: zero if it does not lead,
    /// `None` if there is no election.
    pub fn time_left(&self) -> Option<Duration> {
        let token = self.token.as_ref()?;
        let until = Duration::from_nanos(token.until.load(Ordering::Acquire));
        Some(until.saturating_sub(token.clock.now()))
    }

    /// Waits until this process does not lead; for ever if there is no election.
    pub async fn lost(&self) {
        self.ended(self.term()).await;
    }

    /// Waits until this process leads.
    pub async fn held(&self) {
        let Some(token) = &self.token else { return };
        let mut changed = token.changed.subscribe();
        while !self.is_held() {
            drop(changed.changed().await);
        }
    }

    /// A client that sends only while leadership is held: without it a request
    /// fails at once, and one that is under way ends when the token expires,
    /// with its body or its watch. Without an election it is the client as is.
    ///
    /// What was sent before the token expired can still arrive at the server.
    pub(crate) fn fence(&self, client: kube::Client) -> kube::Client {
        if self.token.is_some() { fence::client(client, self.clone()) } else { client }
    }

    /// Which of the terms of this process it is.
    pub(super) fn term(&self) -> u64 {
        self.token.as_ref().map_or(0, |token| token.term.load(Ordering::Acquire))
    }

    /// Whether that term goes on.
    pub(super) fn is_term(&self, term: u64) -> bool {
        self.is_held() && self.term() == term
    }

    /// Waits until that term is over.
    pub(super) async fn ended(&self, term: u64) {
        let Some(token) = &self.token else { return std::future::pending().await };
        let mut changed = token.changed.subscribe();
        while self.is_term(term) {
            let left = self.time_left().unwrap_or(LOOK).min(LOOK);
            // The sender is `self`: it cannot be gone.
            drop(tokio::time::timeout(left, changed.changed()).await);
        }
    }

    /// The clock of the token; the system's where there is no election.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.token.as_ref().map_or_else(clock::system, |token| Arc::clone(&token.clock))
    }

    /// Sets until when it is valid; `None` drops it.
    pub(super) fn set(&self, until: Option<Moment>) {
        let Some(token) = &self.token else { return };
        let until = until.map_or(0, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
        if until > 0 && !self.is_held() {
            token.term.fetch_add(1, Ordering::AcqRel);
        }
        if token.until.swap(until, Ordering::AcqRel) != until {
            token.changed.send_replace(());
        }
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("held", &self.is_held()).field("time_left", &self.time_left()).finish()
    }
}
