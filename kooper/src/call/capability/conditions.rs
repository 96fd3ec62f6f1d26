//! Conditions: the state of an object in its status, each with its last transition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Resource as _;

use crate::clock;
use crate::object::as_object::AsObject;

/// The condition that summarizes all others.
const READY: &str = "Ready";

/// The conditions that one call of a handler sets on an object.
///
/// Each condition has the object's generation and the time of the last change
/// of its `status`. `Ready` is `True` only after [`ready`](Self::ready), so a
/// call that fails half-way does not report it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use kooper::Conditions;
///
/// # let (shop, before, available) = (ConfigMap::default(), Vec::<Condition>::new(), 2);
/// let mut conditions = Conditions::of(&shop, &before);
/// conditions.set("Scaled", available == 3, "Replicas", format!("{available} of 3 are available"));
/// if available == 3 {
///     conditions.ready("AsSpecified", "all replicas are available");
/// } else {
///     conditions.not_ready("Replicas", "waits for replicas");
/// }
/// let list = conditions.into_vec();
/// assert!(list.iter().any(|one| one.type_ == "Ready" && one.status == "False"));
/// ```
#[derive(Debug, Clone)]
#[must_use = "`into_vec` returns the list for the status"]
pub struct Conditions {
    generation: Option<i64>,
    list: Vec<Condition>,
    ready: (bool, String, String),
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl Conditions {
    /// Begins with the conditions `before` of the object's status.
    pub fn of<M>(object: &impl AsObject<M>, before: &[Condition]) -> Self {
        let unfinished = "the handler has not finished".to_owned();
        Self {
            generation: object.as_object().meta().generation,
            list: before.to_vec(),
            ready: (false, "Incomplete".to_owned(), unfinished),
        }
    }

    /// Sets a condition by its type. `reason` is one CamelCase word, `message`
    /// is for people. `Ready` becomes `True` by [`ready`](Self::ready) only:
    /// here it can be set to `False`.
    pub fn set(
        &mut self,
        name: &str,
        holds: impl Into<Holds>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Self {
        let (holds, reason, message) = (holds.into(), reason.into(), message.into());
        if name != READY {
            self.put(name, holds, reason, message);
        } else if holds != Holds::True {
            self.ready = (false, reason, message);
        }
        self
    }

    /// Removes a condition by its type.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.list.retain(|one| one.type_ != name);
        self
    }

    /// Sets `Ready` to `True`: the object is in its desired state.
    pub fn ready(&mut self, reason: impl Into<String>, message: impl Into<String>) -> &mut Self {
        self.ready = (true, reason.into(), message.into());
        self
    }

    /// Sets `Ready` to `False`: the handler waits for something.
    pub fn not_ready(&mut self, reason: impl Into<String>, message: impl Into<String>) -> &mut Self {
        self.ready = (false, reason.into(), message.into());
        self
    }

    /// Sets `Ready` to `False` because of an error. The message is the error with
    /// its sources.
    pub fn failed(&mut self, reason: impl Into<String>, error: &(dyn std::error::Error + 'static)) -> &mut Self {
        self.not_ready(reason, crate::error::chain(error))
    }

    /// Returns the conditions for the status, including `Ready`.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<Condition> {
        let (ready, reason, message) = std::mem::take(&mut self.ready);
        self.put(READY, ready.into(), reason, message);
        self.list
    }

    fn put(&mut self, name: &str, holds: Holds, reason: String, message: String) {
        let condition = Condition {
            type_: name.to_owned(),
            status: format!("{holds:?}"),
            reason,
            message,
            observed_generation: self.generation,
            last_transition_time: Time(clock::wall()),
        };
        set_condition(&mut self.list, condition);
    }
}

/// Replaces the condition of the same type, or adds one. `lastTransitionTime`
/// changes only if `status` does. Returns whether the list changed.
///
/// [`Conditions`] does this for all conditions of an object.
pub fn set_condition(list: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(before) = list.iter_mut().find(|one| one.type_ == condition.type_) else {
        list.push(condition);
        return true;
    };
    if before.status == condition.status {
        condition.last_transition_time = before.last_transition_time.clone();
    }
    let changed = *before != condition;
    *before = condition;
    changed
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn object(generation: i64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.generation = Some(generation);
        object
    }

    fn condition<'a>(list: &'a [Condition], name: &str) -> &'a Condition {
        list.iter().find(|one| one.type_ == name).unwrap()
    }

    /// A list whose conditions changed an hour ago.
    fn aged(mut list: Vec<Condition>) -> Vec<Condition> {
        for one in &mut list {
            one.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        }
        list
    }

    #[test]
    fn an_object_is_not_ready_before_the_handler_has_finished() {
        let mut pass = Conditions::of(&object(1), &[]);
        pass.ready("Done", "done");
        let before = pass.into_vec();
        assert_eq!(condition(&before, READY).status, "True");
        let mut pass = Conditions::of(&object(2), &before);
        pass.set("Scaled", true, "Replicas", "3").set(READY, true, "Early", "set before the end");
        let list = pass.into_vec();
        let ready = condition(&list, READY);
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Incomplete"));
        assert_eq!(ready.observed_generation, Some(2));
    }

    #[test]
    fn a_failure_after_ready_sets_not_ready() {
        let mut pass = Conditions::of(&object(1), &[]);
        pass.ready("Done", "done").failed("Rejected", &crate::HandlerError::permanent("no"));
        let list = pass.into_vec();
        assert_eq!(
            (condition(&list, READY).status.as_str(), condition(&list, READY).message.as_str()),
            ("False", "no")
        );
    }

    #[test]
    fn only_a_change_of_the_status_is_a_transition() {
        let pass = |generation, holds, before: &[Condition]| {
            let mut pass = Conditions::of(&object(generation), before);
            pass.set("Scaled", holds, format!("Generation{generation}"), "");
            pass.into_vec()
        };
        let before = aged(pass(1, Holds::True, &[]));
        let same = pass(2, Holds::True, &before);
        let scaled = condition(&same, "Scaled");
        assert_eq!((scaled.last_transition_time.0, scaled.observed_generation), (Timestamp::UNIX_EPOCH, Some(2)));
        let flipped = pass(2, Holds::Unknown, &before);
        let scaled = condition(&flipped, "Scaled");
        assert!(scaled.last_transition_time.0 > Timestamp::UNIX_EPOCH && scaled.status == "Unknown");
    }

    #[test]
    fn conditions_of_other_writers_are_kept() {
        let mut pass = Conditions::of(&object(1), &[]);
        pass.set("Theirs", true, "A", "b").set("Old", true, "A", "b");
        let mut next = Conditions::of(&object(2), &pass.into_vec());
        next.remove("Old").ready("Done", "");
        let list = next.into_vec();
        assert_eq!(condition(&list, "Theirs").observed_generation, Some(1));
        assert!(list.iter().all(|one| one.type_ != "Old"));
        assert!(!set_condition(&mut list.clone(), condition(&list, "Theirs").clone()));
    }
}
