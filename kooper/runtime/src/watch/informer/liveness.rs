//! Distinguishes a quiet watch from a dead one.
//!
//! Bookmarks do not: kube-apiserver sends none for Events, and none for any kind
//! between its own start and the first change of the kind. An answered list does
//! not either, because it proves the server and not the watch. So after a silence
//! the current version is read, and a second watch is opened beside the first, from
//! the version up to which all changes are known. What it delivers was lost by the
//! first. If it delivers nothing, there is nothing up to the version that was read.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};

use super::Events;
use crate::backoff::fraction;
use crate::object::older;
use crate::watch::retriever::{ErasedRetriever, Event, ListRequest, RetrieveError, WatchRequest};

/// The time for which a second watch of an API server is observed, as a fraction of
/// the longest silence. It is more than a minute, which is enough to receive a
/// bookmark.
const OBSERVED: f64 = 0.36;

/// The number of second watches in a row that must be quiet, unless the source is
/// known to send no bookmarks: one that is as dead as the first proves nothing.
const WATCHES: u32 = 3;

/// The pause after a probe that failed, as a part of the longest silence.
const PAUSE: u32 = 18;

/// The result of a probe.
pub(super) enum Verdict {
    /// Nothing has changed up to this version; `None` if it could not be read.
    Quiet(Option<String>),
    /// The second watch delivered something before the first one did.
    Delivered(Event, Events),
    /// The server's version is lower than the known one.
    Behind(String),
    /// The known version is too old for a second watch.
    Expired(String),
    Failed(RetrieveError),
}

/// Begins a probe when a watch has been silent for long.
pub(super) struct Liveness {
    longest: Duration,
    /// The first probe begins after this time.
    wait: Duration,
    /// A source that cannot be probed until then is considered dead.
    limit: Option<Instant>,
    /// The next probe; never for a source whose silence is normal.
    due: Option<Instant>,
    /// It may be set for an earlier time than `due`: it is not reset for each event.
    timer: Pin<Box<Sleep>>,
    probe: Option<BoxFuture<'static, Verdict>>,
}

impl Liveness {
    /// The seed spreads the probes of several watches.
    pub(super) fn new(longest: Duration, seed: u64) -> Self {
        let wait = (longest / 2).mul_f64(1.0 - fraction(seed) / 9.0);
        let mut liveness = Self { longest, wait, limit: None, due: None, timer: Box::pin(sleep(wait)), probe: None };
        liveness.reset();
        liveness
    }

    /// Restarts the time of silence, after an event or a proof that there is none.
    pub(super) fn reset(&mut self) {
        let now = Instant::now();
        self.limit = now.checked_add(self.longest);
        self.due = now.checked_add(self.wait);
        self.probe = None;
    }

    /// Notes that the watch was opened anew: it has at least half of the time.
    pub(super) fn reopened(&mut self) {
        self.limit = self.limit.max(Instant::now().checked_add(self.longest / 2));
    }

    /// Returns `true` if the source is considered dead.
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= Instant::now())
    }

    /// Waits for the result of the next probe, which `probe` makes. It can be
    /// cancelled and called again; a probe goes on.
    pub(super) async fn verdict(&mut self, probe: impl Fn() -> Probe) -> Verdict {
        loop {
            if let Some(running) = &mut self.probe {
                let verdict = running.await;
                self.probe = None;
                self.due = Instant::now().checked_add(self.longest / PAUSE);
                return verdict;
            }
            let (Some(due), Some(limit)) = (self.due, self.limit) else { return std::future::pending().await };
            self.timer.as_mut().await;
            if due > Instant::now() {
                self.timer.as_mut().reset(due);
            } else {
                self.probe = Some(Box::pin(probe().run(limit, self.longest.mul_f64(OBSERVED))));
            }
        }
    }
}

/// One attempt to prove that nothing has changed.
pub(super) struct Probe {
    pub(super) retriever: Arc<dyn ErasedRetriever>,
    /// The version up to which all changes are known.
    pub(super) from: String,
    /// `true` if the source is known to send no bookmarks.
    pub(super) quiet: bool,
}

impl Probe {
    /// The source has to answer before `limit`.
    async fn run(self, mut limit: Instant, observed: Duration) -> Verdict {
        let mut version = None;
        for _ in 0..if self.quiet { 1 } else { WATCHES } {
            version = match timeout_at(limit, current_version(&*self.retriever)).await {
                Err(_elapsed) => return Verdict::Failed(RetrieveError::Silent(observed)),
                Ok(Err(error)) => return Verdict::Failed(error),
                Ok(Ok(version)) => version,
            };
            match version {
                Some(version) if older(&version, &self.from) => return Verdict::Behind(version),
                // Nothing at all has changed, of any kind.
                Some(version) if version == self.from => return Verdict::Quiet(Some(version)),
                _ => {}
            }
            if let Some(verdict) = self.second(limit, observed).await {
                return verdict;
            }
            limit = Instant::now() + observed;
        }
        Verdict::Quiet(version)
    }

    /// Observes a second watch; `None` if it is quiet.
    async fn second(&self, limit: Instant, observed: Duration) -> Option<Verdict> {
        let request = WatchRequest { version: self.from.clone(), initial_events: false };
        let failed = |error| match error {
            RetrieveError::Expired(message) => Verdict::Expired(message),
            error => Verdict::Failed(error),
        };
        let mut events = match timeout_at(limit, self.retriever.watch(request)).await {
            Err(_elapsed) => return Some(Verdict::Failed(RetrieveError::Silent(observed))),
            Ok(Err(error)) => return Some(failed(error)),
            Ok(Ok(events)) => events,
        };
        match timeout(observed, events.next()).await {
            Err(_elapsed) => None,
            Ok(None) => Some(Verdict::Failed(RetrieveError::Closed)),
            Ok(Some(Err(error))) => Some(failed(error)),
            Ok(Some(Ok(event))) => Some(Verdict::Delivered(event, events)),
        }
    }
}

/// The current version of the source, by a list of one object; `None` if it may not
/// be listed, or has no versions.
pub(super) async fn current_version(retriever: &dyn ErasedRetriever) -> Result<Option<String>, RetrieveError> {
    let request = ListRequest { limit: 1, ..ListRequest::default() };
    match retriever.list(request).await {
        Ok(page) => Ok(Some(page.version).filter(|version| !version.is_empty())),
        Err(RetrieveError::Forbidden(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
