//! The state of an election, for `/readyz` and the logs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::lease::LeaseError;
use super::previous::LeaseOwner;
use super::scope::WatchedNamespaces;
use crate::clock::Clock;
use crate::metrics::health::Probe;

/// The state of the election of one controller. A standby is ready, because a
/// roll-out waits for new pods while the old one is the leader.
#[expect(missing_debug_implementations, reason = "it is only asked for its state")]
pub struct ElectionStatus {
    controller: Arc<str>,
    /// The Lease, as `namespace/name`.
    lease: String,
    /// The mark of our own records.
    mark: Arc<str>,
    /// The namespaces that this candidate watches.
    scope: WatchedNamespaces,
    /// A transient failure is reported if it lasts this long.
    patience: Duration,
    clock: Arc<dyn Clock>,
    state: Mutex<ElectionState>,
}

#[derive(Default)]
struct ElectionState {
    /// `true` once the Lease was read.
    known: bool,
    phase: Phase,
    requests: [RequestHealth; 3],
    /// The reason if there is no watch.
    unwatched: Option<String>,
}

/// The purpose of a request. Each fails and recovers independently: a Lease that
/// can be read may still not be writable.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestPurpose {
    Read,
    Write,
    /// Reading a respected Lease.
    Previous,
}

#[derive(Default)]
struct RequestHealth {
    failure: Option<RequestFailure>,
    /// The error that was logged.
    logged: Option<String>,
}

struct RequestFailure {
    message: String,
    transient: bool,
    /// When it began, by the clock.
    since: Duration,
}

impl ElectionState {
    /// Clears the failure of a kind of request; returns whether it was logged.
    fn clear(&mut self, purpose: RequestPurpose) -> bool {
        std::mem::take(&mut self.requests[purpose as usize]).logged.is_some()
    }

    fn failures(&self) -> impl Iterator<Item = &RequestFailure> {
        self.requests.iter().filter_map(|request| request.failure.as_ref())
    }
}

/// The state of a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is not a candidate, or the lease has no holder.
    #[default]
    Free,
    /// The holder is another candidate.
    Standby(Arc<str>),
    /// The record has no mark: the holder is not a controller of Kooper.
    Unmarked(Arc<str>),
    /// The record has the mark of another controller.
    Foreign {
        mark: Arc<str>,
        holder: Arc<str>,
    },
    /// Replicas share the work of the controller in shards. The last one of them that stops returns the Lease.
    Shared,
    /// The holder watches other namespaces: it is another installation.
    Apart {
        holder: Arc<str>,
        scope: WatchedNamespaces,
    },
    /// A respected lease has a holder.
    Previous {
        lease: Arc<str>,
        owner: LeaseOwner,
        holder: Arc<str>,
    },
    Leading,
}

impl ElectionStatus {
    pub(super) fn new(
        controller: Arc<str>,
        lease: String,
        mark: Arc<str>,
        scope: WatchedNamespaces,
        patience: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { controller, lease, mark, scope, patience, clock, state: Mutex::default() }
    }

    /// Records a success. A Lease that can be written can be read.
    pub(super) fn record_success(&self, purpose: RequestPurpose) {
        let mut state = self.state.lock();
        state.known |= !matches!(purpose, RequestPurpose::Previous);
        let also = if let RequestPurpose::Write = purpose { RequestPurpose::Read } else { purpose };
        let logged = [purpose, also].into_iter().any(|purpose| state.clear(purpose));
        if logged && state.requests.iter().all(|request| request.logged.is_none()) {
            drop(state);
            tracing::info!(controller = &*self.controller, lease = self.lease, "the lease can be used again");
        }
    }

    /// Records a failure. The same error is logged once; a transient one only if it
    /// lasts.
    pub(super) fn record_failure(&self, purpose: RequestPurpose, error: &LeaseError) {
        let (message, now, transient) = (error.to_string(), self.clock.now(), error.is_transient());
        let mut state = self.state.lock();
        let request = &mut state.requests[purpose as usize];
        let since = request.failure.as_ref().map_or(now, |failure| failure.since);
        let lasts = !transient || now.saturating_sub(since) >= self.patience;
        request.failure = Some(RequestFailure { message: message.clone(), transient, since });
        let is_new = request.logged.as_ref() != Some(&message);
        if lasts && is_new {
            request.logged = Some(message.clone());
        }
        drop(state);
        if lasts && is_new {
            tracing::warn!(controller = &*self.controller, lease = self.lease, "{message}");
        } else {
            tracing::debug!(controller = &*self.controller, lease = self.lease, "{message}");
        }
    }

    /// Records that the watch cannot be opened. This is logged once, because the
    /// record is polled.
    pub(super) fn record_missing_watch(&self, error: &LeaseError) {
        let message = format!("{error}; until then the Lease is polled, so a release is noticed later");
        if self.state.lock().unwatched.replace(message.clone()).is_none() {
            tracing::warn!(controller = &*self.controller, lease = self.lease, "{message}");
        }
    }

    pub(super) fn record_watch_event(&self) {
        self.state.lock().unwatched = None;
    }

    /// Resets the phase of a process that is no longer a candidate.
    pub(super) fn reset(&self) {
        self.state.lock().phase = Phase::Free;
    }

    /// Sets the phase; returns whether it has changed. While a respected lease is
    /// held, it does not matter that ours is free or has expired. A candidate that `waits` for another one
    /// needs no request until then.
    pub(super) fn enter(&self, phase: Phase, waits: bool) -> bool {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Previous { .. }) && !waits && phase != Phase::Leading {
            return false;
        }
        if waits {
            // It neither writes nor reads the respected Leases; who waits for their holder has just read it.
            state.clear(RequestPurpose::Write);
            state.clear(RequestPurpose::Previous);
        }
        let new = state.phase != phase;
        state.phase = phase;
        new
    }

    /// The message for a mark of another controller.
    pub(super) fn dispute(&self, mark: &str, holder: &str) -> String {
        let (lease, ours) = (&self.lease, &self.mark);
        let holder = if holder.is_empty() { String::new() } else { format!(" and is held by {holder}") };
        format!(
            "the Lease {lease} belongs to `{mark}`{holder}; this is `{ours}`, which never acquires it: set another \
             `lease`, or delete the Lease if `{mark}` is gone"
        )
    }

    /// The reason why a standby waits, and what to do about it.
    pub(super) fn standby(&self, phase: &Phase) -> Option<String> {
        let why = match phase {
            Phase::Leading | Phase::Foreign { .. } => return None,
            Phase::Free => "the lease is not held".to_owned(),
            Phase::Standby(holder) => format!("the lease is held by {holder}"),
            Phase::Unmarked(holder) => {
                format!("the lease is held by {holder}, which is not a controller of Kooper")
            }
            Phase::Shared => {
                "replicas with shards work on this controller, and the last one of them that stops returns the Lease; if \
                 none runs any more, delete the Lease"
                    .to_owned()
            }
            Phase::Apart { holder, scope } => format!(
                "the lease is held by {holder}, which watches {scope}, not {}: to run both installations, name each \
                 with `--instance NAME`",
                self.scope
            ),
            Phase::Previous { lease, owner: LeaseOwner::NoInstance, holder } => format!(
                "the lease `{lease}` of the installation without an instance name is held by {holder}: stop that \
                 installation, or give it a name with `--instance NAME`"
            ),
            Phase::Previous { lease, holder, .. } => {
                format!("the lease `{lease}` of a previous name is held by {holder}")
            }
        };
        Some(format!("standby: {why}"))
    }

    /// The last failure, for the reason why leadership was lost.
    pub(super) fn last_error(&self) -> Option<String> {
        self.state.lock().failures().next().map(|failure| failure.message.clone())
    }
}

impl Probe for ElectionStatus {
    fn name(&self) -> String {
        format!("{}: leader election", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let state = self.state.lock();
        let controller = &self.controller;
        for failure in state.failures() {
            let lasts = self.clock.now().saturating_sub(failure.since) >= self.patience;
            if !failure.transient || !state.known || lasts {
                return Err(format!("{controller}: {}", failure.message));
            }
        }
        let lease = &self.lease;
        let remark = match &state.phase {
            _ if !state.known => return Err(format!("{controller}: the Lease {lease} has not been read yet")),
            Phase::Foreign { mark, holder } => return Err(format!("{controller}: {}", self.dispute(mark, holder))),
            phase => self.standby(phase),
        };
        let failures = state.failures().map(|failure| failure.message.clone());
        // A leader needs no watch.
        let unwatched = state.unwatched.clone().filter(|_| state.phase != Phase::Leading);
        let remarks: Vec<_> = remark.into_iter().chain(failures).chain(unwatched).collect();
        Ok((!remarks.is_empty()).then(|| format!("{controller}: {}", remarks.join("; "))))
    }
}
