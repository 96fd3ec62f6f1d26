//! The list: the whole state at once, streamed or in pages.

use futures_util::StreamExt;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

use super::{Events, Informer, Seen};
use crate::object::older;
use crate::watch::retriever::{Event, ListRequest, RetrieveError};
use crate::watch::store::Listed;

/// A list whose version is lower is accepted after so many in a row: the
/// server's data were restored, and this is what there is.
const LOWER_LISTS: u32 = 3;

/// The largest page that is asked for.
const LARGEST_PAGE: u32 = 8000;

/// Streams that break off before their end, in a row, until pages are tried.
const BROKEN_STREAMS: u32 = 2;

impl Informer {
    /// Lists everything into the store. A streaming list goes on as a watch,
    /// which comes back.
    pub(super) async fn sync(&mut self) -> Result<Option<Events>, RetrieveError> {
        self.status.lists();
        let (listed, version, events) = if self.streaming && self.streams_broken < BROKEN_STREAMS {
            match self.stream().await {
                Err(RetrieveError::NoStreaming(message)) => {
                    tracing::debug!(watch = %self.status, "{message}: listing in pages from now on");
                    self.streaming = false;
                    let (listed, version) = self.pages().await?;
                    (listed, version, None)
                }
                streamed => {
                    let (listed, version, events) = streamed?;
                    (listed, version, Some(events))
                }
            }
        } else {
            let (listed, version) = self.pages().await?;
            // The next list is streamed again: what spoiled it may be over.
            self.streams_broken = self.streams_broken.min(BROKEN_STREAMS - 1);
            (listed, version, None)
        };
        self.check_version(&version)?;
        self.commit(listed, version).await;
        Ok(events)
    }

    /// A watch that begins with everything there is; a bookmark ends that.
    async fn stream(&mut self) -> Result<(Listed, String, Events), RetrieveError> {
        let mut events = self.open(true).await?;
        let mut listed = Listed::default();
        let broken = loop {
            match timeout(self.silence, events.next()).await {
                Err(_elapsed) => {
                    break RetrieveError::Transport(format!("the list stopped for {} s", self.silence.as_secs()));
                }
                Ok(None) => break RetrieveError::Transport("the list broke off before its end".to_owned()),
                Ok(Some(Err(error))) => break error,
                Ok(Some(Ok(event))) => match event {
                    Event::Added(object) | Event::Modified(object) => listed.add(object, &self.store),
                    Event::Deleted(object) => listed.remove(object.key()),
                    Event::Bookmark { version, initial_events_end: true } => {
                        self.streams_broken = 0;
                        return Ok((listed, version, events));
                    }
                    Event::Bookmark { initial_events_end: false, .. } => {
                        return Err(RetrieveError::NoStreaming(
                            "a bookmark came before the end of the list, as of a server that ignores `sendInitialEvents`"
                                .to_owned(),
                        ));
                    }
                    Event::Malformed(malformed) => {
                        self.sink.malformed();
                        self.status.unreadable(&malformed);
                    }
                },
            }
        };
        self.streams_broken += 1;
        if self.streams_broken >= BROKEN_STREAMS {
            // Something between here and the server spoils it; pages are short.
            tracing::info!(watch = %self.status, "streaming lists break off: this one is made in pages");
        }
        Err(broken)
    }

    async fn pages(&mut self) -> Result<(Listed, String), RetrieveError> {
        let mut listed = Listed::default();
        let mut request = ListRequest { continue_token: None, limit: self.page };
        loop {
            let page = match self.retriever.list(request.clone()).await {
                Ok(page) => page,
                Err(error) => {
                    // The pages before this one are of a version that is gone. In
                    // fewer, larger ones the list is made in less time.
                    if matches!(error, RetrieveError::Expired(_)) && request.continue_token.is_some() {
                        self.page = self.page.saturating_mul(2).min(LARGEST_PAGE);
                    }
                    return Err(error);
                }
            };
            for object in page.objects {
                consume_budget().await;
                match object {
                    Ok(object) => listed.add(object, &self.store),
                    Err(malformed) => {
                        self.sink.malformed();
                        self.status.unreadable(&malformed);
                    }
                }
            }
            match page.continue_token {
                Some(token) => request.continue_token = Some(token),
                None => return Ok((listed, page.version)),
            }
        }
    }

    /// A list is made at the newest version. A lower one than was seen comes
    /// from a server that lags behind, or from one whose data were restored;
    /// only the latter says so again and again.
    fn check_version(&mut self, version: &str) -> Result<(), RetrieveError> {
        if !older(version, &self.version) {
            self.went_back = 0;
            return Ok(());
        }
        self.went_back += 1;
        if self.restored || self.went_back >= LOWER_LISTS {
            tracing::warn!(watch = %self.status, from = %self.version, to = %version, "the server's versions went back, as after a restore: its list is taken as it is");
            self.sink.restored();
            self.version.clear();
            self.went_back = 0;
            return Ok(());
        }
        Err(RetrieveError::Transport(format!(
            "a list of version {version} is older than {}, which was seen before",
            self.version
        )))
    }

    /// Puts a list into the store and hands on its changes, part by part: after
    /// each few the other tasks of the thread have their turn.
    async fn commit(&mut self, listed: Listed, version: String) {
        let objects = listed.len();
        let first = !self.status.is_synced();
        let seen = if first { Seen::First } else { Seen::Listed };
        if !first {
            self.sink.relisted();
        }
        let mut count = 0;
        let store = self.store.clone();
        for changes in store.replace(listed) {
            count += changes.len();
            for change in changes {
                self.sink.changed(&change, seen);
                consume_budget().await;
            }
        }
        if first {
            tracing::info!(watch = %self.status, objects, version, "synced");
        } else {
            tracing::info!(watch = %self.status, objects, changes = count, version, "listed anew");
        }
        self.version = version;
        self.restored = false;
        self.failures = 0;
        // Only now: when the sync is awaited, all keys are queued after it.
        self.status.synced(objects);
    }
}
