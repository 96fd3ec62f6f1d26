//! Keeps a store up to date: retriever → store → sinks, which receive each change.

mod feed;
mod liveness;
mod selecting;
mod shared;
mod status;
mod sync;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::backoff::{Backoff, fraction};
use crate::error;
use crate::object::{MalformedObject, Object, older};
use crate::watch::retriever::{ErasedRetriever, Event, Events, ListRequest, RetrieveError, WatchRequest};
use crate::watch::selection::CacheSelection;
use crate::watch::store::{Change, Store};

pub(crate) use feed::Feed;
use liveness::{Liveness, Probe, Verdict, current_version};
pub use shared::{SharedWatches, Watched};
use status::TRIES;
pub(crate) use status::WatchStatus;

/// A watch that ends sooner without an event counts as failed. No silence is shorter.
const SHORT: Duration = Duration::from_secs(1);

/// The delays of a failing watch; each watch has its own.
const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(200), max: Duration::from_secs(30) };

/// The longest pause that a server may request.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A streaming list may be silent for this part of the time for which a watch may.
const LISTS_SILENCE: u32 = 3;

/// The way in which a change was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeSource {
    /// In the first list.
    First,
    /// By comparing a later list with the store.
    Listed,
    /// In the watch.
    Watched,
}

/// The events of an informer that are not changes of objects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal<'a> {
    /// The objects were listed again.
    Relisted,
    /// The server serves the kind, and did not before.
    Served,
    /// A list with a lower version was accepted.
    Restored,
    /// An object was malformed.
    Malformed,
    /// A list or watch request failed.
    Failed(&'a RetrieveError),
}

/// Receives what an informer observes.
pub(crate) trait Sink: Send + Sync {
    /// An object changed; the store has the change already.
    fn changed(&self, change: &Change, seen: ChangeSource);
    /// An object left the selection of the cache, which has dropped it; it was not deleted.
    fn left(&self, _object: &Arc<Object>) {}
    fn signal(&self, _signal: Signal<'_>) {}
    /// Returns `true` if all other sinks are informed of each change first.
    fn is_last(&self) -> bool {
        false
    }
}

/// One watch with its store.
pub(crate) struct Informer {
    pub(crate) retriever: Arc<dyn ErasedRetriever>,
    pub(crate) store: Arc<Store>,
    pub(crate) status: Arc<WatchStatus>,
    pub(crate) sink: Arc<dyn Sink>,
    /// The objects that the store keeps; `None` for all.
    selection: Option<Arc<dyn CacheSelection>>,
    /// The changes of the selection.
    reselected: Option<watch::Receiver<u64>>,
    /// The value of those when the last list began.
    joined: u64,
    /// The number of objects that had left the selection when the last list began, or the store last dropped them.
    left: Option<u64>,
    /// The objects that the last list lacked, but that may have joined the selection again during it.
    undecided: Vec<Arc<Object>>,
    /// The version up to which all changes are known: the next watch begins there.
    version: String,
    /// A request without a byte for this time is considered dead.
    silence: Duration,
    /// `true` if the source supports streaming lists. It becomes `false` when one is rejected.
    streaming: bool,
    /// `true` if the source marks the end of its streaming lists; `None` before it is known. All watches of a server
    /// share it.
    stream_ends: Arc<Mutex<Option<bool>>>,
    streams_broken: u32,
    /// `true` if the source is known to send no bookmarks.
    quiet: bool,
    /// The most objects in a page of a list.
    page: u32,
    /// The source was silent twice: it may have been restored from a backup, with
    /// lower versions.
    restored: bool,
    went_back: u32,
    failures: u32,
    /// The number of 404s in a row at the end of the failures.
    missing: u32,
    /// The number of watches in a row whose version was too old from the start.
    expired: u32,
}

/// Why a watch ended.
enum WatchEnd {
    /// The source closed it: it is resumed.
    Closed,
    /// The version is too old: a list is needed.
    Expired(String),
    /// No event or bookmark was received, and the source could not be probed.
    Silent,
    /// The source has a lower version than the known one: a list is needed.
    Behind(String),
    Failed(RetrieveError),
    /// Objects have joined the selection of the store: a list of them is needed.
    Joined,
    /// Objects have left the selection of the store, and another watch does not send them.
    Left,
}

impl Informer {
    pub(crate) fn new(
        retriever: Arc<dyn ErasedRetriever>,
        store: Arc<Store>,
        status: Arc<WatchStatus>,
        sink: Arc<dyn Sink>,
    ) -> Self {
        store.note_listed(false);
        let streaming = retriever.streams_lists();
        // With zero, each probe would be due at once after the last one.
        let silence = retriever.longest_silence().unwrap_or(Duration::MAX).max(SHORT);
        Self {
            retriever,
            store,
            status,
            sink,
            selection: None,
            reselected: None,
            joined: 0,
            left: None,
            undecided: Vec::new(),
            version: String::new(),
            silence,
            streaming,
            stream_ends: Arc::default(),
            streams_broken: 0,
            quiet: false,
            page: ListRequest::default().limit,
            restored: false,
            went_back: 0,
            failures: 0,
            missing: 0,
            expired: 0,
        }
    }

    /// The same for a source whose other watches have the same server.
    fn of_server(self, stream_ends: &Arc<Mutex<Option<bool>>>) -> Self {
        Self { stream_ends: stream_ends.clone(), ..self }
    }

    /// The same for a store that keeps only some of the objects.
    fn selecting(self, selection: Option<Arc<dyn CacheSelection>>) -> Self {
        let reselected = selection.as_ref().map(|selection| selection.changes());
        Self { selection, reselected, ..self }
    }

    /// Runs until stopped. Errors do not end it; they are logged, and requests are
    /// retried.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let status = self.status.clone();
        let forever = async {
            loop {
                if let Err(panic) = AssertUnwindSafe(self.turn()).catch_unwind().await {
                    self.pause(&RetrieveError::Panicked(error::panic_text(&*panic))).await;
                }
            }
        };
        stop.run_until_cancelled(forever).await;
        status.record_stop();
    }

    /// One list, and the watch that follows it.
    async fn turn(&mut self) {
        match self.sync().await {
            Ok(events) => self.follow(events).await,
            Err(error) => self.pause(&error).await,
        }
    }

    /// Watches from the known version until a list is needed. `open` is the rest of
    /// a streaming list, which continues as a watch.
    async fn follow(&mut self, mut open: Option<Events>) {
        let mut silent = 0;
        let mut last = Instant::now();
        let mut liveness = Liveness::new(self.silence, self.seed());
        loop {
            let started = Instant::now();
            let before = self.version.clone();
            let mut heard = false;
            let end = match open.take() {
                Some(events) => self.drain(events, &mut liveness, &mut heard).await,
                None => match self.open(false).await {
                    Ok(events) => self.drain(events, &mut liveness, &mut heard).await,
                    Err(RetrieveError::Expired(message)) => WatchEnd::Expired(message),
                    Err(error) => WatchEnd::Failed(error),
                },
            };
            if heard {
                silent = 0;
                self.failures = 0;
                last = Instant::now();
            }
            // The response time of a server does not depend on the version.
            if heard && started.elapsed() >= SHORT {
                self.expired = 0;
            }
            match end {
                WatchEnd::Expired(message) => {
                    tracing::info!(watch = %self.status, version = %before, "{message}: listing again");
                    self.expired += 1;
                    if self.expired > 1 {
                        // The last list was too old already: back off.
                        self.failures = self.expired - 1;
                        self.pause(&RetrieveError::Expired(message)).await;
                    }
                    return;
                }
                WatchEnd::Closed if started.elapsed() >= SHORT => {}
                WatchEnd::Closed if heard => tokio::time::sleep(BACKOFF.initial).await,
                WatchEnd::Closed if self.misses_changes(last).await => return,
                WatchEnd::Closed => self.pause(&RetrieveError::Closed).await,
                // If the version is newer than the server's, no events follow: treat
                // it as silence.
                WatchEnd::Failed(error @ RetrieveError::TooLargeVersion(_)) => {
                    silent += 1;
                    self.pause(&error).await;
                    if silent >= 2 {
                        self.restored = true;
                        return;
                    }
                }
                WatchEnd::Silent => {
                    silent += 1;
                    tracing::warn!(watch = %self.status, "no event or bookmark for {} s: reconnecting", self.silence.as_secs());
                    if silent >= 2 {
                        self.restored = true;
                        return;
                    }
                    liveness.reset();
                }
                WatchEnd::Behind(version) => {
                    tracing::info!(watch = %self.status, from = %self.version, to = %version, "the server's resource version went back: listing again");
                    self.went_back += 1;
                    return;
                }
                WatchEnd::Failed(_) if self.misses_changes(last).await => return,
                WatchEnd::Failed(error) => self.pause(&error).await,
                WatchEnd::Joined => match self.list_joined().await {
                    // The next watch also sends them.
                    Ok(true) => {}
                    Ok(false) | Err(RetrieveError::Expired(_)) => return,
                    Err(error) => {
                        self.pause(&error).await;
                        return;
                    }
                },
                WatchEnd::Left => {}
            }
        }
    }

    /// Returns `true` if lists have a newer version, and no watch that was opened has said anything for so long.
    async fn misses_changes(&self, last: Instant) -> bool {
        if last.elapsed() < self.silence {
            return false;
        }
        let current = timeout(self.silence / LISTS_SILENCE, current_version(&*self.retriever)).await;
        let is_newer = matches!(current, Ok(Ok(Some(current))) if current != self.version);
        if is_newer {
            tracing::warn!(watch = %self.status, "no watch could be followed for {} s: listing again", self.silence.as_secs());
        }
        is_newer
    }

    /// Reads a watch until it ends.
    async fn drain(&mut self, mut events: Events, liveness: &mut Liveness, heard: &mut bool) -> WatchEnd {
        liveness.reopened();
        // One for all events: each new one would be registered with the sender, and removed.
        let mut reselected = pin!(changed(self.reselected.clone()));
        loop {
            let event = tokio::select! {
                biased;
                changes = &mut reselected => {
                    self.drop_unselected().await;
                    if self.has_joined() {
                        return WatchEnd::Joined;
                    }
                    reselected.set(changed(Some(changes.clone())));
                    self.reselected = Some(changes);
                    if self.retriever.is_outdated() {
                        return WatchEnd::Left;
                    }
                    continue;
                }
                event = events.next() => event,
                verdict = liveness.verdict(|| self.probe()) => match verdict {
                    Verdict::Quiet(version) => {
                        tracing::debug!(watch = %self.status, version, "silent, as there is no change");
                        self.quiet |= version.as_ref().is_some_and(|version| *version != self.version);
                        self.advance(version.as_deref().unwrap_or_default());
                        self.record_event();
                        *heard = true;
                        liveness.reset();
                        continue;
                    }
                    Verdict::Delivered(event, second) => {
                        // Both began at the same version, so nothing is lost or repeated.
                        tracing::debug!(watch = %self.status, "a second watch responded first: the first one is \
                                                               closed");
                        events = second;
                        Some(Ok(event))
                    }
                    Verdict::Behind(version) => return WatchEnd::Behind(version),
                    Verdict::Expired(message) => return WatchEnd::Expired(message),
                    Verdict::Failed(error) => {
                        tracing::debug!(watch = %self.status, "silent: {}", error::chain(&error));
                        self.sink.signal(Signal::Failed(&error));
                        if liveness.is_over() {
                            return WatchEnd::Silent;
                        }
                        continue;
                    }
                },
            };
            let event = match event {
                None => return WatchEnd::Closed,
                Some(Err(RetrieveError::Expired(message))) => return WatchEnd::Expired(message),
                Some(Err(error)) => return WatchEnd::Failed(error),
                Some(Ok(event)) => event,
            };
            *heard = true;
            self.record_event();
            match event {
                Event::Added(object) | Event::Modified(object) | Event::Deleted(object) if !self.accepts(&object) => {
                    self.advance(object.version());
                    self.skip(object);
                }
                Event::Added(object) | Event::Modified(object) => {
                    self.advance(object.version());
                    let change = self.store.put(object);
                    // A resumed watch may repeat known events.
                    let same = change.old.iter().zip(&change.new).any(|(old, new)| old.same_version(new));
                    if !same {
                        self.sink.changed(&change, ChangeSource::Watched);
                    }
                }
                Event::Deleted(object) => {
                    self.advance(object.version());
                    let change = self.store.remove(object);
                    self.sink.changed(&change, ChangeSource::Watched);
                }
                Event::Bookmark { version, .. } => {
                    self.quiet = false;
                    self.advance(&version);
                }
                Event::Malformed(malformed) => self.record_malformed(&malformed),
                Event::MalformedDeletion(malformed) => {
                    self.record_malformed(&malformed);
                    return WatchEnd::Expired("a deleted object cannot be read".to_owned());
                }
            }
            // The time for processing an event does not count as silence.
            liveness.reset();
        }
    }

    fn record_event(&self) {
        self.status.record_event();
        if self.store.note_served(true) {
            self.sink.signal(Signal::Served);
        }
    }

    fn record_malformed(&self, malformed: &MalformedObject) {
        self.sink.signal(Signal::Malformed);
        self.status.record_malformed(malformed);
    }

    fn probe(&self) -> Probe {
        Probe { retriever: self.retriever.clone(), from: self.version.clone(), quiet: self.quiet }
    }

    /// Spreads the timers of several watches.
    fn seed(&self) -> u64 {
        Arc::as_ptr(&self.store) as usize as u64
    }

    /// Moves the version forward, never back.
    fn advance(&mut self, version: &str) {
        if !version.is_empty() && !older(version, &self.version) {
            self.version.clear();
            self.version.push_str(version);
        }
    }

    async fn open(&self, initial_events: bool) -> Result<Events, RetrieveError> {
        let version = if initial_events { String::new() } else { self.version.clone() };
        let request = WatchRequest { version, initial_events };
        let patience = if initial_events { self.silence / LISTS_SILENCE } else { self.silence };
        match timeout(patience, self.retriever.watch(request)).await {
            Ok(events) => events,
            Err(_elapsed) => Err(RetrieveError::Silent(patience)),
        }
    }

    /// Logs a failure and waits, longer each time. The delays are spread, so that
    /// watches are not re-established all at once.
    async fn pause(&mut self, error: &RetrieveError) {
        let is_missing = matches!(error, RetrieveError::NotFound(_));
        // A success has set the failures to zero.
        self.missing = if is_missing { self.missing.min(self.failures).saturating_add(1) } else { 0 };
        self.failures = self.failures.saturating_add(1);
        let backoff = BACKOFF.delay(self.failures);
        let wait = match error {
            RetrieveError::Busy { after, .. } => backoff.max((*after).min(LONGEST_PAUSE)),
            _ => backoff,
        };
        let seed = u64::from(self.failures) ^ self.seed();
        let wait = wait.mul_f64(1.0 + fraction(seed) / 4.0);
        // The objects of a kind are deleted before it is: if some are left, this is more likely a proxy's 404.
        if is_missing && (self.missing >= TRIES || self.store.size().0 == 0) {
            self.store.note_served(false);
        }
        let has_failed = self.status.record_failure(error, wait, self.failures);
        let (is_refused, is_first) = (error.is_refused(), !self.status.is_synced());
        // After a first list, a proxy may have refused the watch once.
        let is_waived = if is_first { has_failed } else { is_refused && self.failures >= TRIES };
        if let Some(selection) = self.selection.as_ref().filter(|_| is_refused) {
            selection.listed(self.joined);
        }
        if !self.status.is_absent() {
            self.sink.signal(Signal::Failed(error));
        }
        tokio::select! {
            biased;
            () = self.report_unawaited(is_refused && is_first), if is_waived => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Waits for a change of the selection; forever without one.
async fn changed(reselected: Option<watch::Receiver<u64>>) -> watch::Receiver<u64> {
    if let Some(mut changes) = reselected
        && changes.changed().await.is_ok()
    {
        return changes;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
