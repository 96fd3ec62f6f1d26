//! Watches: each reads the kind's log at its own pace.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Call;
use super::form::{self, Form};
use super::list;
use super::served;
use crate::faults::View;
use crate::http::{Answer, write_event};
use crate::kinds::Kind;
use crate::select::Selection;
use crate::status::StatusError;
use crate::store::{After, Change, FRAME, Next, Object, Snapshot, TooOld};
use crate::{defaults, print, registry};

/// Interval of bookmarks on a watch that requested them, while there are no events.
const BOOKMARK: Duration = Duration::from_secs(60);
/// The last bookmark comes so long before the end of a watch, so that the next one begins there.
const BEFORE_END: Duration = Duration::from_secs(2);
/// The watchers of one kind, so that clients cannot fill the memory.
const MOST_WATCHERS: usize = 50_000;
/// Minimum duration of a watch for which the client sets no timeout.
const LASTS: Duration = Duration::from_secs(1800);

pub(super) async fn watch(call: &Call<'_>) -> Result<Answer, StatusError> {
    let selection = list::selection(call, true)?;
    let query = &call.request.query;
    let version = |text: &str| text.parse::<u64>().map_err(|_| list::bad_version(text));
    let from = query.get("resourceVersion").map(version).transpose()?;
    let seconds = list::number(query, "timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let lasts = seconds.map_or_else(
        || LASTS + Duration::from_secs(u64::from(crate::random::uid().as_bytes()[0]) * 7),
        |seconds| Duration::from_secs(seconds.unsigned_abs()),
    );
    let bookmarks = query.flag("allowWatchBookmarks");
    let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
    let cached = registry::of(&call.kind).is_cached();
    let table = &call.kind.table;
    if table.enter() > MOST_WATCHERS {
        table.leave();
        let mut refusal =
            StatusError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "too many watches of this resource");
        refusal.retry_after = Some(1);
        return Err(refusal);
    }
    let ends = Instant::now() + lasts.min(Duration::from_secs(30 * 86_400));
    // From here on the watcher leaves the table when it is dropped.
    let mut watcher = Watcher {
        kind: Arc::clone(&call.kind),
        selection,
        prefix: call.target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default(),
        form: call.media.form,
        position: 0,
        bookmarks,
        first: None,
        view: call.view(),
        ends,
        bookmark_at: (bookmarks && cached).then(|| next_bookmark(ends)),
        done: false,
        rows: 0,
    };
    match (initial, from) {
        (Some(true), from) => {
            // Without a version it is the newest one.
            let version = from.unwrap_or_else(|| call.cluster.store.version());
            match list::cached(call, &mut watcher.view, version).await {
                Ok(snapshot) => watcher.start(snapshot, true),
                Err(refusal) => watcher.fail(&refusal),
            }
        }
        // The state and what follows, as watches did before there was a streaming list.
        (None, None | Some(0)) => {
            let snapshot = list::cached(call, &mut watcher.view, 0).await?;
            watcher.start(snapshot, false);
        }
        (Some(false), None | Some(0)) => watcher.position = list::cached(call, &mut watcher.view, 0).await?.version,
        (_, Some(version)) => {
            watcher.position = version;
            if let Err(too_old) = table.begin(version, cached) {
                let message = if cached {
                    expired(version, &too_old)
                } else {
                    "The resourceVersion for the provided watch is too old.".to_owned()
                };
                watcher.fail(&StatusError::expired(message));
            }
        }
    }
    Ok(watcher.answer())
}

/// When the next bookmark of a watch is due that ends then.
fn next_bookmark(ends: Instant) -> Instant {
    let now = Instant::now();
    let last = ends.checked_sub(BEFORE_END).filter(|last| *last > now);
    last.unwrap_or(ends).min(now + BOOKMARK)
}

fn expired(version: u64, too_old: &TooOld) -> String {
    format!("too old resource version: {version} ({})", too_old.oldest)
}

/// One watch: which changes it reports, and up to which version it has done so.
struct Watcher {
    kind: Arc<Kind>,
    selection: Selection,
    prefix: String,
    form: Form,
    position: u64,
    bookmarks: bool,
    /// Initial events, which are sent before the log is read.
    first: Option<First>,
    view: View,
    ends: Instant,
    /// Never without a watch cache: then the only bookmark is that after the first objects.
    bookmark_at: Option<Instant>,
    done: bool,
    /// Tables: the columns are sent with the first row only.
    rows: usize,
}

enum First {
    /// The objects of a snapshot from a name on; then, perhaps, the bookmark that closes them.
    Objects {
        snapshot: Snapshot,
        from: String,
        closing: bool,
    },
    Error(Value),
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.kind.table.leave();
    }
}

impl Watcher {
    fn start(&mut self, snapshot: Snapshot, closing: bool) {
        self.position = snapshot.version;
        self.first = Some(First::Objects { snapshot, from: self.prefix.clone(), closing });
    }

    fn fail(&mut self, refusal: &StatusError) {
        self.first = Some(First::Error(refusal.to_value()));
    }

    fn answer(self) -> Answer {
        let stream = futures_util::stream::unfold(self, |mut watcher| async move {
            let frame = watcher.next().await?;
            Some((frame, watcher))
        });
        Answer::stream(stream)
    }

    /// The next lines; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            let mut lines = BytesMut::new();
            if let Some(first) = self.first.take() {
                self.write_first(&mut lines, first);
                if !lines.is_empty() {
                    return Some(lines.freeze());
                }
                continue;
            }
            let table = Arc::clone(&self.kind.table);
            // Asked for before the log is read, so that no change is missed in between.
            let changed = table.changed();
            match table.changes_after(self.position) {
                Next::Changes(changes) => {
                    let frozen = self.view.frozen().unwrap_or(u64::MAX);
                    if let Some(change) = changes.first().filter(|change| change.version > frozen) {
                        // A frozen cache sends nothing, not even bookmarks.
                        drop(tokio::time::timeout_at(self.ends, self.view.shows(change.version)).await);
                        if Instant::now() >= self.ends {
                            return None;
                        }
                        continue;
                    }
                    for change in changes.into_iter().take_while(|change| change.version <= frozen) {
                        self.position = change.version;
                        self.write_change(&mut lines, &change);
                    }
                    if !lines.is_empty() {
                        return Some(lines.freeze());
                    }
                    if Instant::now() >= self.ends {
                        return None;
                    }
                }
                Next::Nothing(version) => {
                    let deadline = self.bookmark_at.map_or(self.ends, |bookmark| bookmark.min(self.ends));
                    if tokio::time::timeout_at(deadline, changed).await.is_ok() {
                        continue;
                    }
                    if Instant::now() >= self.ends {
                        return None;
                    }
                    self.bookmark_at = Some(next_bookmark(self.ends));
                    let version = self.view.frozen().map_or(version, |frozen| version.min(frozen));
                    // A watch from the future has seen nothing that it could confirm.
                    if version >= self.position {
                        self.write_bookmark(&mut lines, version, false);
                        return Some(lines.freeze());
                    }
                }
                Next::TooOld(too_old) => {
                    self.done = true;
                    let refusal = StatusError::expired(expired(self.position, &too_old));
                    write_event(&mut lines, "ERROR", refusal.to_value().to_string().as_bytes());
                    return Some(lines.freeze());
                }
                Next::Closed => return None,
            }
        }
    }

    fn write_first(&mut self, lines: &mut BytesMut, first: First) {
        match first {
            First::Error(status) => {
                self.done = true;
                write_event(lines, "ERROR", status.to_string().as_bytes());
            }
            First::Objects { snapshot, from, closing } => {
                let prefix = self.prefix.clone();
                for (key, object) in snapshot.tree.range(&from).take_while(|(key, _)| key.starts_with(&prefix)) {
                    // A slow reader holds one frame, not the whole state.
                    if lines.len() > FRAME {
                        let from = key.to_string();
                        self.first = Some(First::Objects { snapshot: snapshot.clone(), from, closing });
                        return;
                    }
                    if self.selection.matches(key, object) {
                        self.write_object(lines, "ADDED", object);
                    }
                }
                if closing && self.bookmarks {
                    self.write_bookmark(lines, snapshot.version, true);
                }
            }
        }
    }

    /// Reports a change as this watch sees it: what enters its selector is added, what leaves is deleted.
    fn write_change(&mut self, lines: &mut BytesMut, change: &Change) {
        if !change.name.starts_with(&self.prefix) {
            return;
        }
        let selected = |object: &Arc<Object>| self.selection.matches(&change.name, object);
        let before = change.before.as_ref().is_some_and(selected);
        match &change.after {
            After::Written(object) => match (before, selected(object)) {
                (false, true) => self.write_object(lines, "ADDED", object),
                (true, true) => self.write_object(lines, "MODIFIED", object),
                (true, false) => {
                    if let Some(last) = &change.before {
                        self.write_object(lines, "DELETED", &last.with_version(change.version));
                    }
                }
                (false, false) => {}
            },
            After::Deleted(last) if before => self.write_object(lines, "DELETED", last),
            After::Deleted(_) => {}
        }
    }

    fn write_object(&mut self, lines: &mut BytesMut, event: &str, object: &Object) {
        match self.form {
            Form::Whole | Form::MetadataList => write_event(lines, event, &form::whole(&self.kind, object)),
            Form::Metadata => {
                write_event(lines, event, form::metadata(&served(&self.kind, object)).to_string().as_bytes());
            }
            Form::Table(included) => {
                let value = served(&self.kind, object);
                let metadata = json!({"resourceVersion": object.version.to_string()});
                let table = print::table(&self.kind, &metadata, std::iter::once(&value), self.rows == 0, included);
                self.rows += 1;
                write_event(lines, event, table.to_string().as_bytes());
            }
        }
    }

    fn write_bookmark(&mut self, lines: &mut BytesMut, version: u64, closing: bool) {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if closing {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.form {
            Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            _ => (self.kind.kind.as_str(), self.kind.api_version()),
        };
        // The real server writes what the type of a built-in kind always writes.
        let mut object = match self.form {
            Form::Whole if self.kind.custom.is_none() => {
                // It comes from the type that all versions share.
                let mut object = defaults::zero(self.kind.typed().name, &api_version, kind);
                if registry::of(&self.kind).counts_replicas() {
                    object["spec"]["replicas"] = json!(0);
                }
                object
            }
            _ => json!({"kind": kind, "apiVersion": api_version}),
        };
        object["metadata"] = metadata;
        let object = if let Form::Table(included) = self.form {
            let metadata = json!({"resourceVersion": version.to_string()});
            let table = print::table(&self.kind, &metadata, std::iter::once(&object), self.rows == 0, included);
            self.rows += 1;
            table
        } else {
            object
        };
        write_event(lines, "BOOKMARK", object.to_string().as_bytes());
    }
}
