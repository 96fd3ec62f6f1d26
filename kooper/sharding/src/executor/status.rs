//! Whether the Leases of the shards can be used, for `/readyz` and the logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kooper_base::metrics::health::Probe;
use parking_lot::Mutex;

use super::leases::StoreError;

/// A replica without shards is ready, because a roll-out waits for new pods while others own them all, or while the leader
/// of the version before still works.
pub(super) struct Status {
    controller: Arc<str>,
    /// A transient failure is reported if it lasts this long.
    patience: Duration,
    failures: Mutex<BTreeMap<&'static str, Failing>>,
}

struct Failing {
    since: Duration,
    last: Duration,
    transient: bool,
    /// A leader is waited for.
    is_held: bool,
    logged: Option<String>,
    message: String,
}

impl Status {
    pub(super) fn new(controller: Arc<str>, patience: Duration) -> Self {
        Self { controller, patience, failures: Mutex::default() }
    }

    /// Records the result of a request. The same error is logged once; a transient one only if it lasts.
    pub(super) fn record(&self, what: &'static str, now: Duration, error: Option<&StoreError>) {
        let mut failures = self.failures.lock();
        let Some(error) = error else {
            if failures.remove(what).is_some_and(|failing| failing.logged.is_some()) {
                tracing::info!(controller = &*self.controller, "the Lease of {what} can be used again");
            }
            return;
        };
        if error.is_conflict() {
            return;
        }
        let (message, transient) = (error.to_string(), error.is_transient());
        let is_held = matches!(error, StoreError::Held(..));
        let failing = failures.entry(what).or_insert_with(|| Failing {
            since: now,
            last: now,
            transient,
            is_held,
            logged: None,
            message: String::new(),
        });
        (failing.last, failing.transient, failing.is_held) = (now, transient, is_held);
        let lasts = !transient || now.saturating_sub(failing.since) >= self.patience;
        if lasts && failing.logged.as_ref() != Some(&message) {
            tracing::warn!(controller = &*self.controller, "{message}");
            failing.logged = Some(message.clone());
        }
        failing.message = message;
    }
}

impl Probe for Status {
    fn name(&self) -> String {
        format!("shards {}", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let failures = self.failures.lock();
        let lasts =
            |failing: &&Failing| !failing.transient || failing.last.saturating_sub(failing.since) >= self.patience;
        let message = |failing: &Failing| format!("shards of {}: {}", self.controller, failing.message);
        match failures.values().filter(lasts).find(|failing| !failing.is_held) {
            Some(failing) => Err(message(failing)),
            None => Ok(failures.values().find(|failing| failing.is_held).map(message)),
        }
    }
}
