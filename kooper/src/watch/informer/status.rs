//! How a watch is: for `/readyz`, the metrics and the logs.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kooper_grammar::access::Rule;
use kube::core::Status;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::refusal::{Needs, Refusal};
use crate::metrics::health::Probe;
use crate::object::MalformedObject;
use crate::watch::retriever::RetrieveError;

/// A watch that was not heard from for so long makes the process not ready.
const HEARD_WITHIN: Duration = Duration::from_secs(300);

/// A first list that fails so often is not waited for where other namespaces
/// can be handled without it.
const TRIES: u32 = 3;

/// The state of one watch.
#[derive(Debug)]
pub(crate) struct WatchStatus {
    /// The controller, the resource as RBAC and kubectl name it, and where.
    controller: String,
    resource: String,
    namespace: Option<String>,
    selected: bool,
    from_server: bool,
    /// Whether somebody needs the kind: without it, its absence is fine.
    required: AtomicBool,
    /// Whether a controller can handle nothing without this watch, although it
    /// is of one namespace: then the process is not ready without it.
    synced_required: AtomicBool,
    state: Mutex<State>,
    first: watch::Sender<First>,
}

/// What has come of the first list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Awaited,
    Failed,
    Complete,
}

#[derive(Debug)]
struct State {
    heard: Instant,
    error: Option<String>,
    /// Whether the error is that the cluster does not have the kind.
    missing: bool,
    /// Whether the server refuses the watch: the rule is missing, or the kind.
    refused: bool,
    /// The error that the log has told of.
    said: Option<String>,
    unreadable: u64,
    objects: usize,
    stopped: bool,
}

impl WatchStatus {
    /// `resource` is `plural` or `plural.group`; `selected` says whether a
    /// selector narrows it; `server` whether the API server is the source.
    pub(crate) fn new(controller: &str, resource: &str, namespace: Option<&str>, selected: bool, server: bool) -> Self {
        let state = State {
            heard: Instant::now(),
            error: None,
            missing: false,
            refused: false,
            said: None,
            unreadable: 0,
            objects: 0,
            stopped: false,
        };
        Self {
            controller: controller.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            selected,
            from_server: server,
            required: AtomicBool::new(false),
            synced_required: AtomicBool::new(false),
            state: Mutex::new(state),
            first: watch::Sender::new(First::Awaited),
        }
    }

    /// Notes that somebody needs the kind.
    pub(crate) fn require(&self) {
        self.required.store(true, Ordering::Relaxed);
    }

    /// Notes that a controller can handle nothing without this watch.
    pub(crate) fn require_synced(&self) {
        self.synced_required.store(true, Ordering::Relaxed);
    }

    /// The namespace, where it is of a single one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.first.borrow() == First::Complete
    }

    /// Waits for the first complete list.
    pub(crate) async fn wait_synced(&self) {
        // The sender is `self`: it cannot be gone.
        let _ = self.first.subscribe().wait_for(|first| *first == First::Complete).await;
    }

    /// Waits until the first list is complete, refused, or has failed several
    /// times.
    pub(crate) async fn wait_tried(&self) {
        let _ = self.first.subscribe().wait_for(|first| *first != First::Awaited).await;
    }

    pub(super) fn synced(&self, objects: usize) {
        self.heard();
        self.lock().objects = objects;
        if objects == 0 && !self.is_synced() {
            let hint = if self.selected { "; is the selector as it should be?" } else { "" };
            tracing::info!(watch = %self, "there are no objects yet{hint}");
        }
        self.first.send_replace(First::Complete);
    }

    pub(super) fn heard(&self) {
        let mut state = self.lock();
        state.heard = Instant::now();
        state.error = None;
        (state.missing, state.refused) = (false, false);
        if state.said.take().is_some() {
            drop(state);
            tracing::info!(watch = %self, "it works again");
        }
    }

    pub(super) fn stopped(&self) {
        self.lock().stopped = true;
    }

    /// Notes what failed, `failures` times in a row, and says it: once, as
    /// long as it stays the same. A connection that breaks once is no news.
    pub(super) fn failed(&self, error: &RetrieveError, retry_in: Duration, failures: u32) {
        let refused = matches!(error, RetrieveError::Forbidden(_) | RetrieveError::NotFound(_));
        self.first.send_if_modified(|first| {
            let news = *first == First::Awaited && (refused || failures >= TRIES);
            if news {
                *first = First::Failed;
            }
            news
        });
        let text = format!("{error}{}", self.advice(error));
        let mut state = self.lock();
        state.error = Some(text.clone());
        state.missing = matches!(error, RetrieveError::NotFound(_));
        state.refused = refused;
        let quiet = failures == 1 && matches!(error, RetrieveError::Transport(_));
        if quiet || state.said.as_ref() == Some(&text) {
            drop(state);
            tracing::debug!(watch = %self, retry_in = ?retry_in, "{text}");
        } else {
            state.said = Some(text.clone());
            drop(state);
            tracing::warn!(watch = %self, retry_in = ?retry_in, "{text}");
        }
    }

    /// A list begins: it counts anew what cannot be read.
    pub(super) fn lists(&self) {
        self.lock().unreadable = 0;
    }

    pub(super) fn unreadable(&self, malformed: &MalformedObject) {
        self.lock().unreadable += 1;
        tracing::error!(watch = %self, "{malformed}; it is passed over, the others go on");
    }

    /// Why the other namespaces are handled without this one, if they are.
    pub(crate) fn left_out(&self) -> Option<String> {
        let state = self.lock();
        if state.missing && !self.required.load(Ordering::Relaxed) {
            return None;
        }
        let error = state.error.as_ref().filter(|_| state.refused || *self.first.borrow() == First::Failed)?;
        Some(format!("{self}: left out until it can be watched: {error}"))
    }

    /// Since when nothing was heard.
    pub(crate) fn age(&self) -> Duration {
        self.lock().heard.elapsed()
    }

    /// The namespace that looks empty, for a check that it exists.
    pub(crate) fn empty_namespace(&self) -> Option<&str> {
        let empty = self.is_synced() && self.lock().objects == 0 && self.from_server;
        self.namespace.as_deref().filter(|_| empty)
    }

    /// What to do about an error, as the end of its message.
    fn advice(&self, error: &RetrieveError) -> String {
        let refusal = |code, message: &String| {
            let (plural, group) = self.resource.split_once('.').unwrap_or((&self.resource, ""));
            let rule = Rule::new(group, plural, None, &["list", "watch"]);
            let status = Status { code, message: message.clone(), ..Status::default() };
            let needs = Needs { rule: &rule, only: None, namespace: self.namespace.as_deref() };
            Refusal::of(&status).advice(&needs)
        };
        match error {
            RetrieveError::Forbidden(message) => refusal(403, message),
            RetrieveError::NotFound(message) => refusal(404, message),
            RetrieveError::Unauthorized(message) => refusal(401, message),
            RetrieveError::Transport(text) if is_certificate(text) => {
                "; the server's certificate is not signed by the CA of the kubeconfig: check `certificate-authority`"
                    .to_owned()
            }
            RetrieveError::Transport(_) if self.from_server => {
                "; is the API server up, and its address right?".to_owned()
            }
            _ => String::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_certificate(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("certificate") || text.contains("unknownissuer")
}

impl Probe for WatchStatus {
    fn ready(&self) -> Result<Option<String>, String> {
        let alone = self.namespace.is_none() || self.synced_required.load(Ordering::Relaxed);
        let left_out = self.left_out().filter(|_| !alone);
        let state = self.lock();
        let because = state.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        if state.missing && !self.required.load(Ordering::Relaxed) {
            return Ok(Some(format!("{self}: optional, and not there{because}")));
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
        if age > HEARD_WITHIN && self.from_server && !state.stopped {
            return Err(format!("{self}: nothing heard for {} s{because}", age.as_secs()));
        }
        let unreadable =
            (state.unreadable > 0).then(|| format!("{} unreadable objects were passed over", state.unreadable));
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
