//! Conditions: the state of an object in its status, each with its last transition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kooper_runtime::internal::clock;
use kooper_runtime::internal::object::as_object::AsObject;
use kube::Resource as _;

use crate::events::cut;

/// The condition that summarizes all others.
const READY: &str = "Ready";
/// The condition of an object that is on its way to its desired state.
const RECONCILING: &str = "Reconciling";
/// The condition of an object that cannot get there by itself.
const STALLED: &str = "Stalled";
/// The conditions that kstatus reads besides `Ready`. They are removed unless a call sets them.
const ABNORMAL: [&str; 2] = [RECONCILING, STALLED];
/// The API server's limit of a message, in bytes. It rejects the whole status with a longer one.
const LONGEST: usize = 32_768;
/// The end of a message that is cut off.
const DOTS: &str = "…";

/// The conditions that one call of a handler sets on an object.
///
/// Each condition has the object's generation and the time of the last change
/// of its `status`. `Ready` is `True` only after [`ready`](Self::ready), so a
/// call that fails half-way does not report it. `Reconciling` and `Stalled`, which
/// kstatus reads besides, are in the list only if this call sets them.
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
///     conditions.reconciling("Replicas", "waits for replicas");
/// }
/// let list = conditions.into_vec();
/// assert!(list.iter().any(|one| one.type_ == "Ready" && one.status == "False"));
/// assert!(list.iter().any(|one| one.type_ == "Reconciling" && one.status == "True"));
/// ```
#[derive(Debug, Clone)]
#[must_use = "`into_vec` returns the list for the status"]
pub struct Conditions {
    generation: Option<i64>,
    list: Vec<Condition>,
    ready: (bool, String, String),
    /// Those of [`ABNORMAL`] that this call has not set. They stay in the list until the end, so
    /// that one that is set again keeps the time of its transition.
    unset: Vec<&'static str>,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

/// The previous name of [`ConditionStatus`].
#[deprecated = "use `ConditionStatus`"]
pub type Holds = ConditionStatus;

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl Conditions {
    /// Begins with the conditions `before` of the object's status. `Reconciling` and
    /// `Stalled` are left out unless this call sets them again.
    pub fn of<M>(object: &impl AsObject<M>, before: &[Condition]) -> Self {
        let unfinished = "the handler has not finished".to_owned();
        Self {
            generation: object.as_object().meta().generation,
            list: before.to_vec(),
            ready: (false, "Incomplete".to_owned(), unfinished),
            unset: ABNORMAL.to_vec(),
        }
    }

    /// Sets a condition by its type. `reason` is one CamelCase word, `message`
    /// is for people, and is cut off after 32 768 bytes. `Ready` becomes `True` by
    /// [`ready`](Self::ready) only: here it can be set to `False`.
    pub fn set(
        &mut self,
        name: &str,
        holds: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Self {
        let (holds, reason, message) = (holds.into(), reason.into(), message.into());
        if name != READY {
            self.put(name, holds, reason, message);
        } else if holds != ConditionStatus::True {
            self.ready = (false, reason, message);
        }
        self
    }

    /// Removes a condition by its type.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.list.retain(|one| one.type_ != name);
        self
    }

    /// Sets `Ready` to `True`: the object is in its desired state. Removes
    /// `Reconciling` and `Stalled`.
    pub fn ready(&mut self, reason: impl Into<String>, message: impl Into<String>) -> &mut Self {
        self.unset = ABNORMAL.to_vec();
        self.ready = (true, reason.into(), message.into());
        self
    }

    /// Sets `Reconciling` to `True` and `Ready` to `False`: the object is on its way to
    /// its desired state. Removes `Stalled`. kstatus calls it in progress.
    pub fn reconciling(&mut self, reason: impl Into<String>, message: impl Into<String>) -> &mut Self {
        self.abnormal(RECONCILING, reason.into(), message.into())
    }

    /// Sets `Stalled` to `True` and `Ready` to `False`: the object does not get to its
    /// desired state without a change by a user. Removes `Reconciling`. kstatus
    /// calls it failed.
    pub fn stalled(&mut self, reason: impl Into<String>, message: impl Into<String>) -> &mut Self {
        self.abnormal(STALLED, reason.into(), message.into())
    }

    /// Sets `Ready` to `False`: the handler waits for something.
    pub fn not_ready(&mut self, reason: impl Into<String>, message: impl Into<String>) -> &mut Self {
        self.ready = (false, reason.into(), message.into());
        self
    }

    /// Sets `Ready` to `False` because of an error. The message is the error with
    /// its sources.
    pub fn failed(&mut self, reason: impl Into<String>, error: &(dyn std::error::Error + 'static)) -> &mut Self {
        self.not_ready(reason, kooper_runtime::error::chain(error))
    }

    /// Returns the conditions for the status, including `Ready`.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<Condition> {
        self.list.retain(|one| !self.unset.contains(&one.type_.as_str()));
        let (ready, reason, message) = std::mem::take(&mut self.ready);
        self.put(READY, ready.into(), reason, message);
        self.list
    }

    /// Sets one of [`ABNORMAL`], and neither the other one nor `Ready`.
    fn abnormal(&mut self, name: &str, reason: String, message: String) -> &mut Self {
        self.unset = ABNORMAL.to_vec();
        self.put(name, ConditionStatus::True, reason.clone(), message.clone());
        self.not_ready(reason, message)
    }

    fn put(&mut self, name: &str, holds: ConditionStatus, reason: String, mut message: String) {
        self.unset.retain(|one| *one != name);
        let kept = cut(&message, LONGEST, DOTS).len();
        if kept < message.len() {
            message.truncate(kept);
            message.push_str(DOTS);
        }
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

    /// The conditions after a call that sets these, for an object of this generation.
    fn pass(
        generation: i64,
        before: &[Condition],
        set: impl FnOnce(&mut Conditions) -> &mut Conditions,
    ) -> Vec<Condition> {
        let mut conditions = Conditions::of(&object(generation), before);
        set(&mut conditions);
        conditions.into_vec()
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
        let before = pass(1, &[], |all| all.ready("Done", "done"));
        assert_eq!(condition(&before, READY).status, "True");
        let list = pass(2, &before, |all| {
            all.set("Scaled", true, "Replicas", "3").set(READY, true, "Early", "set before the end")
        });
        let ready = condition(&list, READY);
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Incomplete"));
        assert_eq!(ready.observed_generation, Some(2));
    }

    #[test]
    fn a_failure_after_ready_sets_not_ready() {
        let error = kooper_runtime::HandlerError::permanent("no");
        let list = pass(1, &[], |all| all.ready("Done", "done").failed("Rejected", &error));
        assert_eq!(
            (condition(&list, READY).status.as_str(), condition(&list, READY).message.as_str()),
            ("False", "no")
        );
    }

    #[test]
    fn a_message_that_the_api_server_would_reject_is_cut_off() {
        let page = kooper_runtime::HandlerError::permanent("x".repeat(2 * LONGEST));
        let scaled = "é".repeat(LONGEST);
        for one in pass(1, &[], |all| all.set("Scaled", false, "Long", scaled).failed("Rejected", &page)) {
            assert!((LONGEST - 3..=LONGEST).contains(&one.message.len()), "{}: {}", one.type_, one.message.len());
            assert!(one.message.ends_with(DOTS), "{}", one.type_);
        }
        let list = pass(1, &[], |all| all.not_ready("Long", "x".repeat(LONGEST)));
        assert!(!list[0].message.ends_with(DOTS));
    }

    #[test]
    fn only_a_change_of_the_status_is_a_transition() {
        let scaled = |generation, holds: ConditionStatus, before: &[Condition]| {
            pass(generation, before, |all| all.set("Scaled", holds, format!("Generation{generation}"), ""))
        };
        let before = aged(scaled(1, ConditionStatus::True, &[]));
        let same = scaled(2, ConditionStatus::True, &before);
        let flipped = scaled(2, ConditionStatus::Unknown, &before);
        let scaled = condition(&same, "Scaled");
        assert_eq!((scaled.last_transition_time.0, scaled.observed_generation), (Timestamp::UNIX_EPOCH, Some(2)));
        let scaled = condition(&flipped, "Scaled");
        assert!(scaled.last_transition_time.0 > Timestamp::UNIX_EPOCH && scaled.status == "Unknown");
    }

    #[test]
    fn conditions_of_other_writers_are_kept() {
        let before = pass(1, &[], |all| all.set("Theirs", true, "A", "b").set("Old", true, "A", "b"));
        let list = pass(2, &before, |all| all.remove("Old").ready("Done", ""));
        assert_eq!(condition(&list, "Theirs").observed_generation, Some(1));
        assert!(list.iter().all(|one| one.type_ != "Old"));
        assert!(!set_condition(&mut list.clone(), condition(&list, "Theirs").clone()));
    }

    /// The types of the conditions that hold, and those that do not.
    fn by_status(list: &[Condition]) -> (Vec<&str>, Vec<&str>) {
        let of = |status: &str| list.iter().filter(|one| one.status == status).map(|one| one.type_.as_str()).collect();
        (of("True"), of("False"))
    }

    #[test]
    fn reconciling_and_stalled_are_there_only_while_they_hold() {
        let stalled = pass(1, &[], |all| all.stalled("Image", "there is no such image"));
        assert_eq!(by_status(&stalled), (vec![STALLED], vec![READY]));
        assert_eq!(condition(&stalled, STALLED).observed_generation, Some(1));
        let reconciling = pass(2, &stalled, |all| all.reconciling("Replicas", "1 of 3 are available"));
        assert_eq!(by_status(&reconciling), (vec![RECONCILING], vec![READY]));
        let ready = condition(&reconciling, READY);
        assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("Replicas", "1 of 3 are available"));
        let ready = pass(2, &reconciling, |all| all.ready("AsSpecified", ""));
        assert_eq!(by_status(&ready), (vec![READY], vec![]));
    }

    #[test]
    fn the_last_of_ready_reconciling_and_stalled_in_a_call_counts() {
        let mut pass = Conditions::of(&object(1), &[]);
        pass.ready("A", "").stalled("B", "").reconciling("C", "");
        assert_eq!(by_status(&pass.clone().into_vec()), (vec![RECONCILING], vec![READY]));
        pass.stalled("D", "");
        assert_eq!(by_status(&pass.clone().into_vec()), (vec![STALLED], vec![READY]));
        pass.ready("E", "");
        assert_eq!(by_status(&pass.into_vec()), (vec![READY], vec![]));
    }

    #[test]
    fn a_stall_of_the_last_call_does_not_outlive_it() {
        let before = pass(1, &[], |all| all.stalled("Image", "there is no such image"));
        let error = kooper_runtime::HandlerError::permanent("no");
        let unfinished = pass(2, &before, |all| all);
        let waits = pass(2, &before, |all| all.not_ready("Waits", ""));
        let fails = pass(2, &before, |all| all.failed("Rejected", &error));
        for list in [unfinished, waits, fails] {
            assert_eq!(by_status(&list), (vec![], vec![READY]));
        }
    }

    #[test]
    fn a_stall_that_stays_keeps_the_time_of_its_transition() {
        let before = aged(pass(1, &[], |all| all.stalled("Image", "there is no such image")));
        let list = pass(2, &before, |all| all.reconciling("Pulls", "").stalled("Image", "it is gone"));
        let stalled = condition(&list, STALLED);
        assert_eq!((stalled.last_transition_time.0, stalled.observed_generation), (Timestamp::UNIX_EPOCH, Some(2)));
    }

    #[test]
    fn a_failure_after_stalled_explains_ready_and_leaves_the_stall() {
        let error = kooper_runtime::HandlerError::permanent("no");
        let list = pass(1, &[], |all| all.stalled("Image", "there is no such image").failed("Rejected", &error));
        assert_eq!(by_status(&list), (vec![STALLED], vec![READY]));
        assert_eq!(
            (condition(&list, STALLED).reason.as_str(), condition(&list, READY).reason.as_str()),
            ("Image", "Rejected")
        );
    }

    #[test]
    fn a_stall_that_is_set_by_its_name_stays_as_it_is_set() {
        let list = pass(1, &[], |all| all.set(STALLED, false, "Fine", "").set(RECONCILING, true, "Waits", ""));
        assert_eq!(by_status(&list), (vec![RECONCILING], vec![STALLED, READY]));
    }
}
