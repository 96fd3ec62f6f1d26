//! The state of the Leases of the shards, for `/readyz` and the logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kooper_base::leader::scope::WatchedNamespaces;
use kooper_base::metrics::health::Probe;
use parking_lot::Mutex;

use super::leases::{OVERRIDES, StoreError};
use crate::member::Standby;

/// A replica without shards is ready, because a roll-out waits for new pods while others own them all, or while the leader
/// of the version before still works.
pub(super) struct Status {
    controller: Arc<str>,
    /// A transient failure is reported if it lasts this long.
    patience: Duration,
    failures: Mutex<BTreeMap<&'static str, FailingRequest>>,
    /// The reason for which this replica takes no slot, or does not work.
    standby: Mutex<Option<String>>,
    /// The entries of the overrides without effect.
    rejected: Mutex<Vec<String>>,
    scope: WatchedNamespaces,
}

struct FailingRequest {
    since: Duration,
    last: Duration,
    error: StoreError,
    logged: Option<String>,
}

impl Status {
    pub(super) fn new(controller: Arc<str>, patience: Duration, watched: &[String]) -> Self {
        let scope = WatchedNamespaces::of(watched);
        let (failures, standby, rejected) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { controller, patience, failures, standby, rejected, scope }
    }

    /// Records the entries of the overrides that have no effect. The same one is logged once.
    pub(super) fn reject(&self, rejected: &[String]) {
        for entry in unknown(&mut self.rejected.lock(), rejected) {
            tracing::warn!(
                controller = &*self.controller,
                "an entry of the annotation {OVERRIDES} has no effect: {entry}"
            );
        }
    }

    /// Records the reason for which this replica takes no slot, or does not work. The same one is logged once.
    pub(super) fn stand_by(&self, standby: Option<&Standby>) {
        let mut known = self.standby.lock();
        if standby.is_none() && known.is_none() {
            return;
        }
        let why = standby.map(|standby| match standby {
            Standby::Restored => {
                "the Leases of the shards went back to older versions, as after a restore from a backup: it works again \
                 after a `lease_duration`"
                    .to_owned()
            }
            Standby::Full => "stands by: as many replicas as `members` work; raise it, or run fewer of them".to_owned(),
            Standby::Apart { holder, scope } => format!(
                "{holder} shares the shards and watches {scope}, not {}: to run both installations, name each with \
                 `--instance NAME`",
                self.scope
            ),
        });
        if let Some(why) = why.as_ref().filter(|why| known.as_ref() != Some(*why)) {
            tracing::warn!(controller = &*self.controller, "{why}");
        }
        *known = why;
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
        let failing = failures.entry(what).or_insert_with(|| FailingRequest {
            since: now,
            last: now,
            error: error.clone(),
            logged: None,
        });
        (failing.last, failing.error) = (now, error.clone());
        let message = error.to_string();
        let lasts = !error.is_transient() || now.saturating_sub(failing.since) >= self.patience;
        if lasts && failing.logged.as_ref() != Some(&message) {
            tracing::warn!(controller = &*self.controller, "{message}");
            failing.logged = Some(message);
        }
    }
}

impl Probe for Status {
    fn name(&self) -> String {
        format!("shards {}", self.controller)
    }

    fn ready(&self) -> Result<Option<String>, String> {
        let failures = self.failures.lock();
        let lasts = |failing: &&FailingRequest| {
            !failing.error.is_transient() || failing.last.saturating_sub(failing.since) >= self.patience
        };
        let message = |failing: &FailingRequest| format!("shards of {}: {}", self.controller, failing.error);
        // A leader is waited for.
        let is_held = |failing: &&FailingRequest| matches!(failing.error, StoreError::Held(..));
        match failures.values().filter(lasts).find(|failing| !is_held(failing)) {
            Some(failing) => Err(message(failing)),
            None => {
                let standby =
                    || self.standby.lock().as_ref().map(|why| format!("shards of {}: {why}", self.controller));
                Ok(failures.values().find(is_held).map(message).or_else(standby))
            }
        }
    }
}

/// Replaces the known entries, and returns the new ones.
fn unknown(known: &mut Vec<String>, found: &[String]) -> Vec<String> {
    let new = found.iter().filter(|entry| !known.contains(entry)).cloned().collect();
    if known.as_slice() != found {
        *known = found.to_vec();
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_effect_is_logged_once_and_again_after_it_was_corrected() {
        let mut known = Vec::new();
        let mut logged = |found: &[&str]| {
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            unknown(&mut known, &found).join(", ")
        };
        assert_eq!(logged(&["one"]), "one");
        assert_eq!(logged(&["one"]), "");
        assert_eq!(logged(&["one", "two"]), "two");
        assert_eq!(logged(&[]), "");
        assert_eq!(logged(&["one"]), "one");
    }
}
