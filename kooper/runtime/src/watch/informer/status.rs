//! The state of a watch, for `/readyz`, metrics and logs.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kooper_grammar::access::Rule;
use kube::core::Status;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error;
use crate::error::refusal::{ApiStatus, Needs};
use crate::metrics::health::Probe;
use crate::object::MalformedObject;
use crate::watch::retriever::RetrieveError;

/// The process is not ready if a watch receives nothing for this time, without a
/// proof that there is nothing.
const HEARD_WITHIN: Duration = Duration::from_secs(300);

/// The number of failures of a first list, because the server has just been started
/// or the CRD just been created, that are not logged as a warning.
const INITIALIZING: u32 = 10;

/// The number of failures of a first list after which the other namespaces are
/// handled without it, and of 404s after which a kind that has objects is not served.
pub(super) const TRIES: u32 = 3;

/// The state of one watch.
#[derive(Debug)]
pub(crate) struct WatchStatus {
    controller: String,
    /// The resource as in RBAC and kubectl.
    resource: String,
    namespace: Option<String>,
    /// The name of the only object, if there is a single one.
    name: Option<String>,
    selected: bool,
    from_server: bool,
    /// `true` if a controller requires the kind. Otherwise the cluster need not serve it.
    required: AtomicBool,
    /// `true` if a controller cannot handle any object until this watch is synced. Then
    /// the process is not ready either, even if the watch covers one namespace only.
    synced_required: AtomicBool,
    state: Mutex<WatchState>,
    first: watch::Sender<First>,
}

/// The state of the first list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Awaited,
    Failed,
    /// The server does not serve the kind.
    Absent,
    Complete,
}

impl First {
    fn is_listed(self, optional: bool) -> bool {
        self == Self::Complete || optional && self == Self::Absent
    }
}

#[derive(Debug)]
struct WatchState {
    heard: Instant,
    error: Option<String>,
    /// `true` if the cluster does not serve the kind.
    missing: bool,
    /// `true` if the watch is forbidden or the kind is missing.
    refused: bool,
    /// The error that was logged last.
    logged: Option<String>,
    unreadable: u64,
    objects: usize,
    stopped: bool,
}

impl WatchStatus {
    /// `resource` is `plural` or `plural.group`; `selected` is whether the watch has
    /// a selector, and `server` whether its source is the API server.
    pub(crate) fn new(controller: &str, resource: &str, namespace: Option<&str>, selected: bool, server: bool) -> Self {
        let state = WatchState {
            heard: Instant::now(),
            error: None,
            missing: false,
            refused: false,
            logged: None,
            unreadable: 0,
            objects: 0,
            stopped: false,
        };
        Self {
            controller: controller.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: None,
            selected,
            from_server: server,
            required: AtomicBool::new(false),
            synced_required: AtomicBool::new(false),
            state: Mutex::new(state),
            first: watch::Sender::new(First::Awaited),
        }
    }

    /// The same for a watch of a single object.
    pub(crate) fn of_name(self, name: Option<String>) -> Self {
        Self { name, ..self }
    }

    /// Marks the kind as required.
    pub(crate) fn require(&self) {
        self.required.store(true, Ordering::Relaxed);
    }

    /// Marks the watch as required: a controller cannot handle any object without it.
    pub(crate) fn require_synced(&self) {
        self.synced_required.store(true, Ordering::Relaxed);
    }

    /// The namespace, if the watch is for a single one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.is_listed(false)
    }

    /// Returns `true` if the first list is complete; if it is `optional`, also if the server does not serve the kind.
    pub(crate) fn is_listed(&self, optional: bool) -> bool {
        self.first.borrow().is_listed(optional)
    }

    /// Waits for the first list, as [`is_listed`](Self::is_listed) returns it.
    pub(crate) async fn wait_listed(&self, optional: bool) {
        // The sender is a field of `self`, so it exists.
        let _ = self.first.subscribe().wait_for(|first| first.is_listed(optional)).await;
    }

    /// Waits until the first list is complete, forbidden, or has failed several
    /// times.
    pub(crate) async fn wait_tried(&self) {
        let _ = self.first.subscribe().wait_for(|first| *first != First::Awaited).await;
    }

    pub(super) fn record_sync(&self, objects: usize) {
        self.record_event();
        self.state.lock().objects = objects;
        if objects == 0 && !self.is_synced() {
            let hint = if self.selected { "; check the selector" } else { "" };
            tracing::info!(watch = %self, "there are no objects yet{hint}");
        }
        self.first.send_replace(First::Complete);
    }

    /// Returns `true` if the source is the API server of the process.
    pub(super) fn is_from_server(&self) -> bool {
        self.from_server
    }

    /// Records an event or a bookmark, or a proof that there is none.
    pub(super) fn record_event(&self) {
        let mut state = self.state.lock();
        state.heard = Instant::now();
        state.error = None;
        (state.missing, state.refused) = (false, false);
        if state.logged.take().is_some() {
            drop(state);
            tracing::info!(watch = %self, "the watch works again");
        }
    }

    pub(super) fn record_stop(&self) {
        self.state.lock().stopped = true;
    }

    /// Records the `failures`-th failure in a row. The same error is logged once.
    /// A connection that breaks once is not logged as a warning. Returns `true` if the
    /// list is not waited for.
    pub(super) fn record_failure(&self, error: &RetrieveError, retry_in: Duration, failures: u32) -> bool {
        let refused = error.is_refused();
        let missing = matches!(error, RetrieveError::NotFound(_));
        let has_failed = refused || failures >= TRIES;
        self.first.send_if_modified(|first| {
            let next = match first {
                First::Complete | First::Absent => *first,
                _ if missing => First::Absent,
                First::Awaited if !has_failed => First::Awaited,
                _ => First::Failed,
            };
            std::mem::replace(first, next) != next
        });
        let text = format!("{}{}", error::chain(error), self.advice(error));
        let mut state = self.state.lock();
        state.error = Some(text.clone());
        state.missing = missing;
        state.refused = refused;
        let quiet = (failures == 1 && !error.is_from_server()) || (failures <= INITIALIZING && error.is_initializing());
        if quiet || state.logged.as_ref() == Some(&text) {
            drop(state);
            tracing::debug!(watch = %self, retry_in = ?retry_in, "{text}");
        } else {
            state.logged = Some(text.clone());
            drop(state);
            tracing::warn!(watch = %self, retry_in = ?retry_in, "{text}");
        }
        has_failed
    }

    /// Records that a list begins: malformed objects are counted from zero.
    pub(super) fn begin_list(&self) {
        self.state.lock().unreadable = 0;
    }

    pub(super) fn record_malformed(&self, malformed: &MalformedObject) {
        self.state.lock().unreadable += 1;
        tracing::error!(watch = %self, "{malformed}; it is skipped");
    }

    /// The reason if the other namespaces are handled without this one.
    pub(crate) fn left_out(&self) -> Option<String> {
        let state = self.state.lock();
        if state.missing && !self.required.load(Ordering::Relaxed) {
            return None;
        }
        let error = state.error.as_ref().filter(|_| state.refused || *self.first.borrow() == First::Failed)?;
        Some(format!("{self}: left out until it can be watched: {error}"))
    }

    /// Why the first list is not complete; `None` if it is, or if the kind is optional
    /// and missing.
    pub(crate) fn unlisted(&self) -> Option<String> {
        let problem = self.problem().filter(|_| !self.is_synced() && !self.is_absent())?;
        Some(format!("{self}: {problem}"))
    }

    /// Returns `true` if the cluster does not serve the kind and no controller requires it.
    pub(crate) fn is_absent(&self) -> bool {
        self.state.lock().missing && !self.required.load(Ordering::Relaxed)
    }

    /// The resource, the name of the only object, and the namespace.
    pub(crate) fn place(&self) -> String {
        let name = self.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
        let namespace = self.namespace.as_ref().map_or(String::new(), |namespace| format!(" in {namespace}"));
        format!("{}{name}{namespace}", self.resource)
    }

    /// Why the objects are not up to date, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        let is_synced = self.is_synced();
        let state = self.state.lock();
        let is_silent = self.due(&state) && state.heard.elapsed() > HEARD_WITHIN;
        match &state.error {
            Some(error) => Some(error.clone()),
            None if !is_synced => Some("it is not listed yet".to_owned()),
            None => is_silent.then(|| "it receives neither events nor bookmarks".to_owned()),
        }
    }

    /// The time since the last event or bookmark, or the last proof that there is none.
    pub(crate) fn age(&self) -> Duration {
        self.state.lock().heard.elapsed()
    }

    /// The same where events or bookmarks are due, or the source fails; zero where silence is normal.
    pub(crate) fn silence(&self) -> Duration {
        let absent = self.is_absent();
        let state = self.state.lock();
        let matters = self.due(&state) || state.error.is_some();
        if matters && !absent { state.heard.elapsed() } else { Duration::ZERO }
    }

    /// Returns `true` if silence is a problem: the source is the API server, which can
    /// be probed, and the watch has not stopped.
    fn due(&self, state: &WatchState) -> bool {
        self.from_server && !state.stopped
    }

    /// The namespace if it seems empty, to check that it exists.
    pub(crate) fn empty_namespace(&self) -> Option<&str> {
        let empty = self.is_synced() && self.state.lock().objects == 0 && self.from_server;
        self.namespace.as_deref().filter(|_| empty)
    }

    /// The advice for an error, as the end of its message.
    fn advice(&self, error: &RetrieveError) -> String {
        let refusal = |code, message: &String| {
            let (plural, group) = self.resource.split_once('.').unwrap_or((&self.resource, ""));
            let rule = Rule::new(group, plural, None, &["list", "watch"]);
            let status = Status { code, message: message.clone(), ..Status::default() };
            let needs = Needs { rule: &rule, only: self.name.as_deref(), namespace: self.namespace.as_deref() };
            ApiStatus::of(&status).advice(&needs)
        };
        match error {
            RetrieveError::Forbidden(message) => refusal(403, message),
            RetrieveError::NotFound(message) => refusal(404, message),
            RetrieveError::Unauthorized(message) => refusal(401, message),
            RetrieveError::Connection(_) if is_certificate(&error::chain(error)) => {
                "; the server's certificate is not signed by the CA of the kubeconfig: check `certificate-authority`"
                    .to_owned()
            }
            error if self.from_server && !error.is_from_server() => {
                "; check that the API server runs and that its address is correct".to_owned()
            }
            _ => String::new(),
        }
    }
}

fn is_certificate(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("certificate") || text.contains("unknownissuer")
}

impl Probe for WatchStatus {
    fn name(&self) -> String {
        self.to_string()
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let alone = self.namespace.is_none() || self.synced_required.load(Ordering::Relaxed);
        let left_out = self.left_out().filter(|_| !alone);
        let state = self.state.lock();
        let because = state.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        if state.missing && !self.required.load(Ordering::Relaxed) {
            return Ok(Some(format!("{self}: optional, and not installed{because}")));
        }
        if left_out.is_some() {
            return Ok(left_out);
        }
        if !self.is_synced() {
            return Err(format!("{self}: not synced yet{because}"));
        }
        if state.missing {
            return Err(format!("{self}: no longer served{because}"));
        }
        let age = state.heard.elapsed();
        if age > HEARD_WITHIN && self.due(&state) {
            return Err(format!("{self}: no event or bookmark for {} s{because}", age.as_secs()));
        }
        let unreadable =
            (state.unreadable > 0).then(|| format!("{} unreadable objects were skipped", state.unreadable));
        let remarks: Vec<_> = state.error.iter().cloned().chain(unreadable).collect();
        Ok((!remarks.is_empty()).then(|| format!("{self}: {}", remarks.join("; "))))
    }
}

impl fmt::Display for WatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.controller, self.resource)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_the_server_initializes_is_a_warning_only_if_it_takes_long() {
        let status = WatchStatus::new("test", "shops.example.com", None, false, true);
        let message = "storage is (re)initializing".to_owned();
        let error = RetrieveError::Busy { after: Duration::from_secs(1), message };
        let warned = |failures| {
            status.record_failure(&error, Duration::ZERO, failures);
            status.state.lock().logged.is_some()
        };
        assert!((1..=INITIALIZING).all(|failures| !warned(failures)));
        assert!(warned(INITIALIZING + 1));
    }
}
