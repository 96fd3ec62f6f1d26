//! The statuses that a call has applied. The object that the handler was called
//! with does not show them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use kooper_runtime::ObjectKey;
use parking_lot::Mutex;
use serde_json::Value;

/// The status of each object that a call has written.
#[derive(Debug, Default)]
pub(super) struct Statuses(Mutex<HashMap<StatusId, Arc<tokio::sync::Mutex<KnownStatus>>>>);

/// The resource, the object, and its uid.
type StatusId = (String, ObjectKey, String);

/// The status of an object, as far as a call knows it.
#[derive(Debug, Default)]
pub(super) enum KnownStatus {
    /// Nothing was sent: it is the status that the handler received.
    #[default]
    Nothing,
    /// A request of this call or of an earlier one failed or has no response yet: it may have been done.
    Unknown,
    /// This status was applied last.
    Status(Value),
}

impl Statuses {
    /// The status of one object. It is locked while it is sent, so that two writes
    /// of one call cannot overtake each other.
    pub(super) fn of(&self, resource: &str, key: &ObjectKey, uid: &str) -> Arc<tokio::sync::Mutex<KnownStatus>> {
        let mut known = self.0.lock();
        known.entry((resource.to_owned(), key.clone(), uid.to_owned())).or_default().clone()
    }
}

/// The most statuses of [`UncertainStatuses`]: some are of objects that are gone. One that is forgotten is compared with
/// the cache.
const MOST: usize = 4096;

/// The statuses, by their hashes, that may not be those of a cache, because a write by an earlier call had no response. An
/// extension of the controller's context.
#[derive(Debug, Default)]
pub(super) struct UncertainStatuses(Mutex<HashSet<u64>>);

impl UncertainStatuses {
    pub(super) fn note(&self, status: u64) {
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(status);
    }

    pub(super) fn has(&self, status: u64) -> bool {
        self.0.lock().contains(&status)
    }

    pub(super) fn forget(&self, status: u64) {
        self.0.lock().remove(&status);
    }
}

/// The conditions that summarize an object, by which tools wait for it.
const SUMMARY: [&str; 3] = ["Ready", "Reconciling", "Stalled"];

/// The summary of an object that is not its handler's: `observedGeneration` and the conditions `Ready`, `Reconciling`
/// and `Stalled`. It is put into what the handler applies, so that both are one write.
#[derive(Default)]
pub struct ReservedStatus(OnceLock<(String, Summarize)>);

/// Sets the summary in a status.
type Summarize = Box<dyn Fn(Value) -> Result<Value, serde_json::Error> + Send + Sync>;

impl ReservedStatus {
    /// Reserves the summary of the object with this uid.
    pub fn reserve(
        &self,
        uid: &str,
        summarize: impl Fn(Value) -> Result<Value, serde_json::Error> + Send + Sync + 'static,
    ) {
        self.0.get_or_init(|| (uid.to_owned(), Box::new(summarize)));
    }

    /// Sets the summary in a status that the handler applies.
    pub(super) fn fill(&self, uid: &str, before: &Value, wanted: Value) -> Result<Value, serde_json::Error> {
        match self.0.get() {
            Some((reserved, summarize)) if reserved == uid => summarize(with_summary(before, wanted)),
            _ => Ok(wanted),
        }
    }
}

/// The status with the summary that it had before.
fn with_summary(before: &Value, mut wanted: Value) -> Value {
    if let Some(fields) = wanted.as_object_mut() {
        fields.remove("observedGeneration");
        if let Some(generation) = before.get("observedGeneration") {
            fields.insert("observedGeneration".to_owned(), generation.clone());
        }
        let conditions = |status: Option<&Value>| status.and_then(Value::as_array).cloned().unwrap_or_default();
        let is_summary = |condition: &Value| SUMMARY.iter().any(|name| condition["type"] == *name);
        let mut list = conditions(fields.get("conditions"));
        list.retain(|condition| !is_summary(condition));
        list.extend(conditions(before.get("conditions")).into_iter().filter(is_summary));
        if !list.is_empty() || fields.contains_key("conditions") {
            fields.insert("conditions".to_owned(), list.into());
        }
    }
    wanted
}

impl fmt::Debug for ReservedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReservedStatus").field(&self.0.get().map(|(uid, _)| uid)).finish()
    }
}

impl KnownStatus {
    /// The status to send so that it becomes `wanted`, after the handler received
    /// `before`; `None` if nothing changes.
    pub(super) fn next(&self, before: &Value, mut wanted: Value, omits_lists: bool) -> Option<Value> {
        match self {
            Self::Nothing => changed(before, wanted, omits_lists),
            Self::Status(last) => changed(last, wanted, omits_lists),
            Self::Unknown => {
                keep_transitions(before, &mut wanted);
                Some(wanted)
            }
        }
    }
}

/// The status to send to replace `now`; `None` if they are equal.
fn changed(now: &Value, mut wanted: Value, omits_lists: bool) -> Option<Value> {
    keep_transitions(now, &mut wanted);
    (!is_equal(now, &wanted, omits_lists)).then_some(wanted)
}

/// Keeps the `lastTransitionTime` of conditions whose status does not change.
fn keep_transitions(now: &Value, wanted: &mut Value) {
    let (Some(before), Some(conditions)) = (now["conditions"].as_array(), wanted.get_mut("conditions")) else { return };
    for condition in conditions.as_array_mut().into_iter().flatten() {
        let same = |one: &&Value| ["type", "status"].iter().all(|field| one[*field] == condition[*field]);
        if let Some(since) = before.iter().find(same).and_then(|one| one.get("lastTransitionTime"))
            && condition.is_object()
        {
            condition["lastTransitionTime"] = since.clone();
        }
    }
}

/// Compares values without nulls and empty objects, and with `omits_lists` without empty lists, which the API server does
/// not store.
fn is_equal(one: &Value, other: &Value, omits_lists: bool) -> bool {
    let is_equal = |one: &Value, other: &Value| is_equal(one, other, omits_lists);
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, value)| is_equal(value, other.get(name).unwrap_or(&Value::Null)))
                && other.iter().all(|(name, value)| one.contains_key(name) || is_equal(&Value::Null, value))
        }
        (Value::Object(fields), Value::Null) | (Value::Null, Value::Object(fields)) => {
            fields.values().all(|value| is_equal(value, &Value::Null))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Array(list), Value::Null) | (Value::Null, Value::Array(list)) => omits_lists && list.is_empty(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn condition(status: &str, since: &str, generation: u64) -> Value {
        json!({"conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": since, "observedGeneration": generation}
        ]})
    }

    #[test]
    fn an_equal_status_is_not_sent() {
        let changed = |now: Value, wanted: Value| changed(&now, wanted, false);
        assert_eq!(changed(json!({"replicas": 3}), json!({"replicas": 3, "phase": null})), None);
        assert_eq!(changed(Value::Null, json!({"detail": {}})), None);
        assert_eq!(changed(json!({"replicas": 3}), json!({"replicas": 2})), Some(json!({"replicas": 2})));
        assert_eq!(changed(json!({"replicas": 3}), json!({})), Some(json!({})));
    }

    #[test]
    fn a_fraction_is_equal_to_itself_once_it_was_stored() {
        let wanted = json!({"percent": 280.0 / 3.0});
        let stored = serde_json::from_str(&wanted.to_string()).unwrap();
        assert_eq!(changed(&stored, wanted, false), None);
    }

    #[test]
    fn an_empty_list_is_sent_if_it_is_stored_or_replaces_another_one() {
        let wanted = json!({"conditions": [], "loadBalancer": {"ingress": []}});
        assert_eq!(changed(&json!({"loadBalancer": {}}), wanted.clone(), true), None);
        assert_eq!(changed(&Value::Null, wanted.clone(), true), None);
        assert_eq!(changed(&Value::Null, wanted.clone(), false), Some(wanted.clone()));
        assert_eq!(changed(&json!({"conditions": [{"type": "Ready"}]}), wanted.clone(), true), Some(wanted));
    }

    #[test]
    fn the_transition_time_of_a_condition_with_the_same_status_is_kept() {
        let before = condition("True", "then", 1);
        let changed = |wanted| changed(&before, wanted, false);
        assert_eq!(changed(condition("True", "now", 1)), None);
        assert_eq!(changed(condition("True", "now", 2)), Some(condition("True", "then", 2)));
        assert_eq!(changed(condition("False", "now", 1)), Some(condition("False", "now", 1)));
    }

    #[test]
    fn a_write_of_the_handler_has_the_reserved_summary() {
        let condition = |name: &str, status: &str| json!({"type": name, "status": status});
        let before =
            json!({"observedGeneration": 1, "conditions": [condition("Ready", "True"), condition("Open", "True")]});
        let wanted = json!({"open": 3, "conditions": [condition("Ready", "False"), condition("Open", "False")]});
        let reserved = ReservedStatus::default();
        let kept = |uid: &str| reserved.fill(uid, &before, wanted.clone()).unwrap();
        assert_eq!(kept("1"), wanted);
        reserved.reserve("1", |mut status| {
            status["observedGeneration"] = 2.into();
            Ok(status)
        });
        let conditions = [condition("Open", "False"), condition("Ready", "True")];
        assert_eq!(kept("1"), json!({"open": 3, "observedGeneration": 2, "conditions": conditions}));
        assert_eq!(kept("2"), wanted, "it is another object");
    }

    /// The result of a request.
    #[derive(Debug, Clone, Copy)]
    enum Outcome {
        Done,
        /// It is done, and the response is lost.
        Lost,
        Refused,
    }

    proptest! {
        /// After a successful write the server has the wanted status, regardless of the call's earlier writes.
        #[test]
        fn a_status_that_was_applied_is_on_the_server(
            begin in 0..3,
            writes in prop::collection::vec(
                (0..3, prop_oneof![Just(Outcome::Done), Just(Outcome::Lost), Just(Outcome::Refused)]), 1..8),
        ) {
            let status = |number: i32| json!({"replicas": number});
            let (mut sent, mut server) = (KnownStatus::Nothing, begin);
            for (wanted, outcome) in writes {
                let Some(_) = sent.next(&status(begin), status(wanted), false) else {
                    prop_assert_eq!(server, wanted, "it was not sent");
                    continue;
                };
                sent = KnownStatus::Unknown;
                match outcome {
                    Outcome::Done => (sent, server) = (KnownStatus::Status(status(wanted)), wanted),
                    Outcome::Lost => server = wanted,
                    Outcome::Refused => {}
                }
            }
        }
    }
}
