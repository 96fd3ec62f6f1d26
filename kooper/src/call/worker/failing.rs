//! The keys whose last call failed, for `/readyz` and for the log of their recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::health::Probe;
use crate::metrics::held::{Held, drop_aside};
use crate::object::key::ObjectKey;

/// The keys of one controller that have failed since their last success.
#[derive(Debug)]
pub(crate) struct Failing {
    controller: Arc<str>,
    state: Mutex<FailingKeys>,
}

#[derive(Debug, Default)]
struct FailingKeys {
    keys: BTreeMap<ObjectKey, Failures>,
    /// The keys whose object could not be decoded in the last call.
    undecodable: BTreeSet<ObjectKey>,
}

/// The failed calls of a key since its last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(super) calls: u32,
    since: Instant,
}

impl Failures {
    /// How long the key has been failing.
    pub(super) fn lasted(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Failing {
    pub(crate) fn new(controller: Arc<str>) -> Self {
        Self { controller, state: Mutex::default() }
    }

    /// Notes a failed call.
    pub(super) fn note(&self, key: &ObjectKey, undecodable: bool) {
        let mut state = self.lock();
        let first = Failures { calls: 0, since: Instant::now() };
        let failures = state.keys.entry(key.clone()).or_insert(first);
        failures.calls = failures.calls.saturating_add(1);
        if undecodable {
            state.undecodable.insert(key.clone());
        } else {
            state.undecodable.remove(key);
        }
    }

    /// Forgets a key that succeeded, or whose object was removed or is not handled.
    /// Returns its failures.
    pub(crate) fn forget(&self, key: &ObjectKey) -> Option<Failures> {
        let mut state = self.lock();
        state.undecodable.remove(key);
        state.keys.remove(key)
    }

    /// Forgets all keys, because another replica leads.
    pub(crate) fn clear(&self) {
        let before = std::mem::take(&mut *self.lock());
        drop_aside(before);
    }

    /// Whether the key's object did not decode in the last call. Any change may
    /// fix it.
    pub(crate) fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.lock().undecodable.contains(key)
    }

    fn lock(&self) -> Held<MutexGuard<'_, FailingKeys>> {
        Held::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Probe for Failing {
    fn ready(&self) -> Result<Option<String>, String> {
        let (name, state) = (&self.controller, self.lock());
        let Some(key) = state.undecodable.first() else { return Ok(None) };
        Ok(Some(match state.undecodable.len() {
            1 => format!("{name}: the object {key} does not decode as the controller's type, and is not handled"),
            all => {
                format!(
                    "{name}: {all} objects do not decode as the controller's type, and are not handled, such as {key}"
                )
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("shop", name)
    }

    #[test]
    fn objects_that_do_not_decode_are_reported_until_they_do() {
        let failing = Failing::new("shoes".into());
        let remark = || failing.ready().unwrap().unwrap_or_default();
        assert_eq!(remark(), "");
        failing.note(&key("a"), true);
        failing.note(&key("a"), true);
        failing.note(&key("fails"), false);
        assert!(remark().contains("the object shop/a"), "{}", remark());
        failing.note(&key("b"), true);
        assert!(remark().contains("2 objects") && remark().contains("shop/a"), "{}", remark());
        assert!(failing.is_undecodable(&key("a")) && !failing.is_undecodable(&key("fails")));
        failing.forget(&key("a"));
        // It decodes now, and fails for another reason.
        failing.note(&key("b"), false);
        assert_eq!(remark(), "");
        failing.note(&key("c"), true);
        failing.clear();
        assert_eq!(remark(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovered_key_returns_the_number_and_the_duration_of_its_failures() {
        let failing = Failing::new("shoes".into());
        assert_eq!(failing.forget(&key("a")), None);
        failing.note(&key("a"), false);
        tokio::time::advance(Duration::from_secs(90)).await;
        failing.note(&key("a"), true);
        let failures = failing.forget(&key("a")).unwrap();
        assert_eq!((failures.calls, failures.lasted()), (2, Duration::from_secs(90)));
        assert_eq!(failing.forget(&key("a")), None, "it is reported once");
    }
}
