//! Writing the status of an object.

use kube::core::object::HasStatus as CustomStatus;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::Error;
use super::grant::MayWriteStatus;
use super::request::{Doing, Objects};
use super::write::key_of;
use super::{Access, Request};
use crate::key::ObjectKey;
use crate::kind::Kind;

/// A kind with a status that is written by itself: custom resources with
/// `#[kube(status = "…")]`, and those of `k8s-openapi` that have one. `M` is
/// inferred: it only keeps impls apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no status to write",
    label = "a kind without status",
    note = "take `Applier<{Self}>` or `Patcher<{Self}>`, or give the custom resource a status: `#[kube(status = \"…\")]`"
)]
pub trait HasStatus<M>: Kind {
    /// The type of the status.
    type Status;

    /// The status.
    fn status(&self) -> Option<&Self::Status>;
}

/// Marks the statuses of custom resources.
#[derive(Debug)]
pub enum Custom {}

/// Marks the statuses of built-in kinds.
#[derive(Debug)]
pub enum BuiltIn {}

#[diagnostic::do_not_recommend]
impl<T: Kind + CustomStatus> HasStatus<Custom> for T {
    type Status = T::Status;

    fn status(&self) -> Option<&Self::Status> {
        CustomStatus::status(self)
    }
}

impl<T: Kind, V> Access<T, V> {
    /// Applies the status of an object, the whole of what this controller has
    /// to say in it. Nothing is sent where the object has this status
    /// already. A condition whose `status` is as it was keeps its
    /// `lastTransitionTime`. Answers whether something was sent.
    ///
    /// `object` is the one that the handler was called for: its uid goes
    /// along, so that no other object of its name gets the status.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Service, ServiceStatus};
    /// use kooper::prelude::*;
    ///
    /// async fn expose(service: Arc<Service>, statuses: StatusWriter<Service>) -> Result<()> {
    ///     statuses.apply_status(&service, &ServiceStatus::default()).await?;
    ///     Ok(())
    /// }
    /// # let _ = kooper::Controller::builder::<Service>("expose").handler(expose).build().unwrap();
    /// ```
    ///
    /// # Errors
    /// When the object is gone ([`Error::is_not_found`]), the server refuses
    /// for another reason, or does not answer.
    pub fn apply_status<'a, M>(&'a self, object: &T, status: &T::Status) -> Request<'a, bool>
    where
        T: HasStatus<M, Status: Serialize>,
        V: MayWriteStatus<T>,
    {
        let encode = |status: &T::Status| {
            let kind = T::kind(&());
            serde_json::to_value(status)
                .map_err(|error| Error::wrong(format!("the status of a {kind} cannot be written as JSON: {error}")))
        };
        let now = object.status().map(encode).transpose().map(Option::unwrap_or_default);
        let wanted = now.and_then(|now| Ok(changed(&now, encode(status)?)));
        let (objects, key) = (self.objects(), key_of(object));
        let uid = object.meta().uid.clone().unwrap_or_default();
        Box::pin(async move {
            let Some(status) = wanted? else { return Ok(false) };
            objects.apply_status(&key, &uid, status).await?;
            Ok(true)
        })
    }
}

impl Objects<'_> {
    async fn apply_status(&self, key: &ObjectKey, uid: &str, status: Value) -> Result<(), Error> {
        let mut body = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "metadata": {"name": key.name()},
            "status": status,
        });
        if let Some(namespace) = key.namespace() {
            body["metadata"]["namespace"] = namespace.into();
        }
        if !uid.is_empty() {
            body["metadata"]["uid"] = uid.into();
        }
        let applied = self.send(key, Doing::ApplyStatus(body, self.backing.field_manager())).await?;
        self.take_over(applied.as_ref(), true).await
    }
}

/// The status to send in place of `now`; `None` where they are the same.
fn changed(now: &Value, mut wanted: Value) -> Option<Value> {
    keep_transitions(now, &mut wanted);
    let (mut old, mut new) = (now.clone(), wanted.clone());
    for value in [&mut old, &mut new] {
        prune(value);
    }
    (old != new).then_some(wanted)
}

/// A condition that says what it said before has not changed since then.
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

/// Nothing is the same as an empty object: the server keeps neither.
fn prune(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.values_mut().for_each(prune);
        fields.retain(|_, value| !value.is_null());
        if fields.is_empty() {
            *value = Value::Null;
        }
    } else if let Value::Array(items) = value {
        items.iter_mut().for_each(prune);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, since: &str, generation: u64) -> Value {
        json!({"conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": since, "observedGeneration": generation}
        ]})
    }

    #[test]
    fn an_equal_status_is_not_sent() {
        assert_eq!(changed(&json!({"replicas": 3}), json!({"replicas": 3, "phase": null})), None);
        assert_eq!(changed(&Value::Null, json!({"detail": {}})), None);
        assert_eq!(changed(&json!({"replicas": 3}), json!({"replicas": 2})), Some(json!({"replicas": 2})));
        assert_eq!(changed(&json!({"replicas": 3}), json!({})), Some(json!({})));
    }

    #[test]
    fn the_time_of_a_condition_that_says_the_same_is_kept() {
        let before = condition("True", "then", 1);
        assert_eq!(changed(&before, condition("True", "now", 1)), None);
        assert_eq!(changed(&before, condition("True", "now", 2)), Some(condition("True", "then", 2)));
        assert_eq!(changed(&before, condition("False", "now", 1)), Some(condition("False", "now", 1)));
    }
}
