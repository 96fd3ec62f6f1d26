//! Lists the whole state, as a stream or in pages.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};

use super::liveness::current_version;
use super::{ChangeSource, Events, Informer, LISTS_SILENCE, Signal};
use crate::object::{MalformedObject, Object, older};
use crate::watch::retriever::{Event, ListRequest, RetrieveError};
use crate::watch::silence::Silence;
use crate::watch::store::{Change, ListSnapshot};

/// The number of lists with a lower version after which such a list is accepted:
/// the server was restored from a backup.
const LOWER_LISTS: u32 = 3;

/// A list whose tokens expire with pages of this size is requested as a whole.
const LARGEST_PAGE: u32 = 8000;

/// The current version is read when a streaming list takes longer than this part of
/// the time for which it may be silent.
const LONG: u32 = 12;

/// The number of streams in a row that end early after which pages are requested.
const BROKEN_STREAMS: u32 = 2;

/// The most objects that wait for another list to show whether they were deleted.
const MOST_UNDECIDED: usize = 100_000;

/// A list with its version, and the watch as which a streaming list continues.
type Listing = (ListSnapshot, String, Option<Events>);

impl Informer {
    /// Lists everything into the store. A streaming list continues as a watch,
    /// which is returned.
    pub(super) async fn sync(&mut self) -> Result<Option<Events>, RetrieveError> {
        loop {
            self.status.begin_list();
            // Before the objects are read, so that none that joins later counts as listed, and none that leaves later as dropped.
            self.left = self.selection.as_ref().and_then(|selection| selection.left());
            self.joined = self.reselected.as_mut().map_or(0, |changes| *changes.borrow_and_update());
            let is_empty = self.selection.as_ref().is_some_and(|selection| selection.is_empty());
            let (listed, version, events) = if is_empty { self.nothing().await? } else { self.list().await? };
            self.check_version(&version)?;
            if !self.may_lack(&listed).await {
                self.commit(listed, version).await;
                return Ok(events);
            }
            tracing::debug!(watch = %self.status, "objects were dropped and selected again during the list: listing again");
        }
    }

    /// The state of a store that keeps nothing. One object is requested, which shows whether lists are allowed, instead of
    /// all of them only to be dropped.
    async fn nothing(&self) -> Result<Listing, RetrieveError> {
        let page = self.retriever.list(ListRequest { continue_token: None, limit: 1 }).await?;
        Ok((ListSnapshot::default(), page.version, None))
    }

    /// Lists only what has joined the selection, as it was at the version up to which all changes are known. So the
    /// watch continues there. Returns `false` if everything must be listed.
    pub(super) async fn list_joined(&mut self) -> Result<bool, RetrieveError> {
        // Before the selection is read, so that none that joins later counts as listed.
        let joined = self.reselected.as_mut().map_or(0, |changes| *changes.borrow_and_update());
        // Only a whole list shows if undecided objects were deleted. The first one is streamed.
        if !self.undecided.is_empty() || self.joined == 0 && self.store.size().0 == 0 {
            return Ok(false);
        }
        let Some(retriever) = self.retriever.joined(self.joined, &self.version) else { return Ok(false) };
        // Some may have left after those that the watch has dropped.
        self.drop_unselected().await;
        self.sink.signal(Signal::Relisted);
        let mut request = ListRequest { continue_token: None, limit: self.page };
        loop {
            let page = retriever.list(request.clone()).await?;
            // A server that does not know the parameter lists the newest state.
            if page.version != self.version {
                return Ok(false);
            }
            for object in page.objects {
                consume_budget().await;
                // A whole list counts malformed objects.
                let Ok(object) = object else { return Ok(false) };
                let is_known = self.store.get(object.key()).is_some_and(|known| known.same_version(&object));
                if !is_known && self.accepts(&object) {
                    self.sink.changed(&self.store.put(object), ChangeSource::Listed);
                }
            }
            let Some(token) = page.continue_token else { break };
            request.continue_token = Some(token);
        }
        self.joined = joined;
        self.status.record_sync(self.store.size().0);
        if let Some(selection) = &self.selection {
            selection.listed(joined);
        }
        Ok(true)
    }

    async fn list(&mut self) -> Result<Listing, RetrieveError> {
        let streaming = self.streaming && *self.stream_ends.lock() != Some(false);
        if !streaming || self.streams_broken >= BROKEN_STREAMS {
            let listing = self.pages().await?;
            // The next list is streamed again: the problem may be over.
            self.streams_broken = self.streams_broken.min(BROKEN_STREAMS - 1);
            return Ok(listing);
        }
        let mut is_open = false;
        match self.stream(&mut is_open).await {
            Err(RetrieveError::Silent(_)) => {
                self.streams_broken = BROKEN_STREAMS;
                let listing = self.pages().await?;
                // The server answers, but not with the end of a streaming list. One that has ended others does: only
                // that connection was lost.
                let mut ends = self.stream_ends.lock();
                if is_open && ends.is_none() {
                    *ends = Some(false);
                    tracing::info!(watch = %self.status, "the server does not end its streaming lists: listing in pages from now on");
                }
                Ok(listing)
            }
            Err(RetrieveError::NoStreaming(message)) => {
                tracing::debug!(watch = %self.status, "{message}: listing in pages from now on");
                self.streaming = false;
                self.pages().await
            }
            Err(error) => {
                // Watches may be rejected where lists are not.
                let may_be_rejected = matches!(
                    error,
                    RetrieveError::Status { .. } | RetrieveError::Busy { .. } | RetrieveError::Forbidden(_)
                );
                self.streams_broken += u32::from(may_be_rejected && !is_open);
                Err(error)
            }
            listing => listing,
        }
    }

    /// Returns `true` if objects may have left the selection and joined it again during the list: it lacks those
    /// that were read meanwhile, and they would count as deleted.
    async fn may_lack(&self, listed: &ListSnapshot) -> bool {
        if !self.has_joined() {
            return false;
        }
        let store = self.store.clone();
        for part in store.parts() {
            if part.iter().any(|known| !listed.contains(known.key()) && self.keeps(known)) {
                return true;
            }
            yield_now().await;
        }
        false
    }

    /// A watch that begins with all existing objects; a bookmark ends them.
    async fn stream(&mut self, is_open: &mut bool) -> Result<Listing, RetrieveError> {
        let mut events = self.open(true).await?;
        *is_open = true;
        let mut listed = ListSnapshot::default();
        let patience = self.silence / LISTS_SILENCE;
        let mut silence = Silence::new(patience);
        // An object that is newer than the list has to be preceded or followed by its end.
        let mut ends = None;
        let mut newest: Option<String> = None;
        let retriever = self.retriever.clone();
        let current = async {
            sleep(patience / LONG).await;
            // An error is no version.
            current_version(&*retriever).await.ok().flatten()
        };
        // Once it has completed, it is pending.
        let mut current = pin!(current.fuse());
        let broken = loop {
            let next = {
                let mut next = pin!(async {
                    match ends {
                        Some(ends) => timeout_at(ends, events.next()).await.ok(),
                        None => silence.limit(events.next()).await,
                    }
                });
                loop {
                    tokio::select! {
                        biased;
                        next = &mut next => break next,
                        version = &mut current => newest = version,
                    }
                }
            };
            if let (
                Some(Some(Ok(Event::Added(object) | Event::Modified(object) | Event::Deleted(object)))),
                Some(newest),
            ) = (&next, &newest)
                && ends.is_none()
                && older(newest, object.version())
            {
                ends = Instant::now().checked_add(patience);
            }
            match next {
                None => return Err(RetrieveError::Silent(patience)),
                Some(None) => break RetrieveError::Incomplete,
                Some(Some(Err(error))) => break error,
                Some(Some(Ok(event))) => match event {
                    Event::Added(object) | Event::Modified(object) if self.accepts(&object) => {
                        listed.add(object, &self.store);
                    }
                    Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => {
                        listed.remove(object.key(), &self.store);
                    }
                    Event::Bookmark { version, initial_events_end: true } => {
                        self.streams_broken = 0;
                        *self.stream_ends.lock() = Some(true);
                        return Ok((listed, version, Some(events)));
                    }
                    Event::Bookmark { initial_events_end: false, .. } => {
                        return Err(RetrieveError::NoStreaming(
                            "a bookmark arrived before the end of the list: the server ignores `sendInitialEvents`"
                                .to_owned(),
                        ));
                    }
                    Event::Malformed(malformed) | Event::MalformedDeletion(malformed) => {
                        self.skip_unreadable(&mut listed, &malformed);
                    }
                },
            }
        };
        self.streams_broken += 1;
        if self.streams_broken >= BROKEN_STREAMS {
            // A proxy between the client and the server may end long responses; pages
            // are short.
            tracing::info!(watch = %self.status, "streaming lists end early: listing in pages this time");
        }
        Err(broken)
    }

    async fn pages(&mut self) -> Result<Listing, RetrieveError> {
        let mut listed = ListSnapshot::default();
        let mut request = ListRequest { continue_token: None, limit: self.page };
        loop {
            let page = match self.retriever.list(request.clone()).await {
                Ok(page) => page,
                Err(error) => {
                    // The previous pages belong to a version that was compacted. A
                    // list with fewer, larger pages takes less time.
                    if matches!(error, RetrieveError::Expired(_)) && request.continue_token.is_some() {
                        self.page = if self.page < LARGEST_PAGE { self.page.saturating_mul(2) } else { u32::MAX };
                    }
                    return Err(error);
                }
            };
            for object in page.objects {
                consume_budget().await;
                match object {
                    Ok(object) if self.accepts(&object) => listed.add(object, &self.store),
                    Ok(_) => {}
                    Err(malformed) => self.skip_unreadable(&mut listed, &malformed),
                }
            }
            match page.continue_token {
                Some(token) => request.continue_token = Some(token),
                None => return Ok((listed, page.version, None)),
            }
        }
    }

    /// Records that a list has an object that cannot be read.
    fn skip_unreadable(&self, listed: &mut ListSnapshot, malformed: &MalformedObject) {
        listed.lacks_some = true;
        self.record_malformed(malformed);
    }

    /// A list has the newest version. A lower one than before comes from a server
    /// that lags behind, or from one that was restored from a backup; only the
    /// latter returns it repeatedly.
    fn check_version(&mut self, version: &str) -> Result<(), RetrieveError> {
        if !older(version, &self.version) {
            self.went_back = 0;
            return Ok(());
        }
        self.went_back += 1;
        if self.restored || self.went_back >= LOWER_LISTS {
            tracing::warn!(watch = %self.status, from = %self.version, to = %version, "the server's resource versions went back, as after a restore from a backup: accepting its list");
            self.sink.signal(Signal::Restored);
            self.version.clear();
            self.went_back = 0;
            return Ok(());
        }
        Err(RetrieveError::Outdated { version: version.to_owned(), last: self.version.clone() })
    }

    /// Puts a list into the store and informs the sink of the changes. It yields
    /// regularly, so that other tasks of the thread can run.
    async fn commit(&mut self, mut listed: ListSnapshot, version: String) {
        if listed.lacks_some {
            self.keep_missing(&mut listed).await;
        }
        let objects = listed.len();
        let first = !self.status.is_synced();
        let seen = if first { ChangeSource::First } else { ChangeSource::Listed };
        if !first {
            self.sink.signal(Signal::Relisted);
        }
        for known in std::mem::take(&mut self.undecided) {
            if listed.may_have(known.key()) {
                self.undecided.push(known);
            // Another object may have the name now.
            } else if listed.get(known.key()).is_none_or(|object| object.uid() != known.uid()) {
                self.lacks(known, seen);
            }
            consume_budget().await;
        }
        let mut count = 0;
        let store = self.store.clone();
        for changes in store.replace(listed) {
            count += changes.len();
            for change in changes {
                match (&change.old, &change.new) {
                    (Some(old), None) => self.lacks(old.clone(), seen),
                    _ => self.sink.changed(&change, seen),
                }
                consume_budget().await;
            }
            // All objects of a shard were compared, even if none has changed.
            yield_now().await;
        }
        if first {
            tracing::info!(watch = %self.status, objects, version, "synced");
        } else {
            tracing::info!(watch = %self.status, objects, changes = count, version, "listed again");
        }
        store.note_listed(true);
        self.version = version;
        self.restored = false;
        self.failures = 0;
        // Only now, so that all keys are queued when a caller that awaits the sync
        // continues.
        self.status.record_sync(objects);
        self.record_event();
        if let Some(selection) = &self.selection {
            selection.listed(self.joined);
        }
    }

    /// Adds the known objects that a list with unreadable objects lacks: each may be one of these. `deleted` is not called
    /// for an object that may exist.
    async fn keep_missing(&self, listed: &mut ListSnapshot) {
        let store = self.store.clone();
        let mut kept = 0;
        for part in store.parts() {
            for known in part {
                if listed.may_have(known.key()) && self.keeps(&known) {
                    listed.keep(known);
                    kept += 1;
                }
                consume_budget().await;
            }
        }
        if kept > 0 {
            tracing::warn!(watch = %self.status, kept, "the list has objects that cannot be read: the known objects that it lacks are kept until a list without such objects");
        }
    }

    /// Informs the sink of a known object that a list lacks.
    fn lacks(&mut self, known: Arc<Object>, seen: ChangeSource) {
        // In this order: an object that is kept, while none has joined, was kept during the whole list.
        if !self.keeps(&known) {
            self.sink.left(&known);
        } else if !self.has_joined() {
            self.sink.changed(&Change::new(Some(known), None), seen);
        } else if self.undecided.len() < MOST_UNDECIDED {
            // It may have left and joined again. Another list follows, and shows whether it exists.
            self.undecided.push(known);
        } else {
            // `deleted` is not called for an object that may exist.
            self.sink.left(&known);
        }
    }
}
