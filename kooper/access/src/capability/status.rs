//! Writing the status of an object.

use std::future::ready;

use kooper_runtime::{Kind, ObjectKey};
use serde::Serialize;
use serde_json::{Value, json};

use super::children::hash;
use super::error::AccessError;
use super::grant::MayWriteStatus;
use super::has_status::HasStatus;
use super::request::{Operation, ResourceClient};
use super::statuses::{KnownStatus, ReservedStatus, Statuses, UncertainStatuses};
use super::write::version_of;
use super::{Access, Request};

impl<T: Kind, V> Access<T, V> {
    /// Applies the status of an object: all fields of it that this controller
    /// sets. Nothing is sent if the object already has this status, or if the
    /// call has applied it last, unless an earlier write of it had no response.
    /// A condition whose `status` does not change keeps its
    /// `lastTransitionTime`. Returns whether a request was sent.
    ///
    /// `object` is the object that the handler was called for. The status is
    /// applied to the object with its uid only.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{Service, ServiceStatus};
    /// use kooper::prelude::*;
    ///
    /// async fn expose(service: Arc<Service>, statuses: StatusWriter<Service>) -> Result<()> {
    ///     statuses.apply_status(&service, &ServiceStatus::default()).await?;
    ///     Ok(())
    /// }
    /// # let _ = Service::controller("expose").handler(expose).build().unwrap();
    /// ```
    ///
    /// # Errors
    /// If the object no longer exists ([`AccessError::is_not_found`], or a conflict
    /// if another object has its name), or the API server rejects the request or
    /// does not respond.
    pub fn apply_status<'a, M>(&'a self, object: &T, status: &T::Status) -> Request<'a, bool>
    where
        T: HasStatus<M, Status: Serialize>,
        V: MayWriteStatus<T>,
    {
        self.apply_status_at(object, status, None)
    }

    /// Like [`apply_status`](Self::apply_status), if the object has not changed since it
    /// was read. It is for a status that follows from the one before, such as a counter:
    /// a leader whose cache is behind cannot set it back. Let it be the first write to
    /// the object in a call.
    ///
    /// # Errors
    /// If the object has changed ([`AccessError::is_conflict`]): return the error, and the
    /// call is repeated with the object as it is. If it was not read from the API server and
    /// so has no version. Otherwise those of `apply_status`.
    pub fn apply_status_unchanged<'a, M>(&'a self, object: &T, status: &T::Status) -> Request<'a, bool>
    where
        T: HasStatus<M, Status: Serialize>,
        V: MayWriteStatus<T>,
    {
        match version_of(object) {
            Ok(version) => self.apply_status_at(object, status, Some(version)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// Applies a status to the object, or to this version of it.
    fn apply_status_at<'a, M>(&'a self, object: &T, status: &T::Status, version: Option<String>) -> Request<'a, bool>
    where
        T: HasStatus<M, Status: Serialize>,
        V: MayWriteStatus<T>,
    {
        let encode = |status: &T::Status| {
            let kind = T::kind(&());
            serde_json::to_value(status).map_err(|error| {
                AccessError::wrong(format!("the status of a {kind} cannot be written as JSON: {error}"))
            })
        };
        let before = object.status().map(encode).transpose().map(Option::unwrap_or_default);
        let wanted = before.and_then(|before| Ok((before, encode(status)?)));
        let (objects, key) = (self.objects(), ObjectKey::of(object));
        let (uid, omits_lists) = (object.meta().uid.clone().unwrap_or_default(), T::OMITS_EMPTY_LISTS);
        Box::pin(async move {
            let (before, wanted) = wanted?;
            // Without a call it is not known how old the object is.
            let Some(call) = objects.call else {
                let status = KnownStatus::Unknown.next(&before, wanted, omits_lists);
                objects.apply_status(&key, &uid, version, status.unwrap_or_default()).await?;
                return Ok(true);
            };
            let reserved = call.extensions.get::<ReservedStatus>();
            let wanted = reserved.fill(&uid, &before, wanted).map_err(|error| objects.unreadable(&error))?;
            let sent = call.extensions.get::<Statuses>().of(&objects.kind.resource(), &key, &uid);
            let mut sent = sent.lock().await;
            objects.apply_known(&mut sent, (&key, &uid, version), &before, wanted, omits_lists).await
        })
    }

    /// Applies the status that a function makes of the one that the call has applied last. If it has applied none, the
    /// status is made of that of the object, and applied to this version of it only: another client may have set fields
    /// of it since.
    #[doc(hidden)]
    pub fn compose_status<'a, M>(
        &'a self,
        object: &T,
        compose: impl FnOnce(Value) -> Result<Value, serde_json::Error> + Send + 'a,
    ) -> Request<'a, bool>
    where
        T: HasStatus<M, Status: Serialize + Default>,
        V: MayWriteStatus<T>,
    {
        let before = object.status().map(serde_json::to_value).transpose();
        let (objects, key) = (self.objects(), ObjectKey::of(object));
        let (uid, omits_lists) = (object.meta().uid.clone().unwrap_or_default(), T::OMITS_EMPTY_LISTS);
        let version = Some(object.meta().resource_version.clone().unwrap_or_default());
        Box::pin(async move {
            let Some(call) = objects.call else { return Ok(false) };
            let wrong = |error| objects.unreadable(&error);
            let sent = call.extensions.get::<Statuses>().of(&objects.kind.resource(), &key, &uid);
            let mut sent = sent.lock().await;
            let before = before.map_err(wrong)?;
            let (begin, version) = match (&*sent, &before) {
                (KnownStatus::Status(status), _) => (status.clone(), None),
                (_, Some(before)) => (before.clone(), version),
                (_, None) => (serde_json::to_value(T::Status::default()).map_err(wrong)?, version),
            };
            let wanted = compose(begin).map_err(wrong)?;
            let before = before.unwrap_or_default();
            objects.apply_known(&mut sent, (&key, &uid, version), &before, wanted, omits_lists).await
        })
    }

    /// Merges annotations into an object by a write of its status, which does not count as a new generation.
    #[doc(hidden)]
    pub fn annotate<'a>(&'a self, object: &'a T, annotations: &Value) -> Request<'a, ()>
    where
        V: MayWriteStatus<T>,
    {
        let patch = super::PatchBody::merge(json!({"metadata": {"annotations": annotations}}));
        let patch = patch.of_uid(object.meta().uid.as_deref().unwrap_or_default()).of_status();
        let objects = self.objects();
        Box::pin(async move {
            let manager = objects.controller.field_manager();
            objects.send(&ObjectKey::of(object), Operation::Patch(patch, manager)).await.map(drop)
        })
    }
}

impl ResourceClient<'_> {
    fn unreadable(&self, error: &serde_json::Error) -> AccessError {
        AccessError::wrong(format!("the status of a {} cannot be read as JSON: {error}", self.kind.kind))
    }

    /// Applies a status, unless the object is known to have it.
    ///
    /// Boxed, as [`send_raw`](Self::send_raw) is.
    fn apply_known<'a>(
        &'a self,
        sent: &'a mut KnownStatus,
        (key, uid, version): (&'a ObjectKey, &'a str, Option<String>),
        before: &'a Value,
        wanted: Value,
        omits_lists: bool,
    ) -> Request<'a, bool> {
        Box::pin(async move {
            let uncertain = self.controller.extensions.get::<UncertainStatuses>();
            let id = hash((self.kind.resource(), key, uid));
            let was_uncertain = uncertain.has(id);
            if was_uncertain && matches!(*sent, KnownStatus::Nothing) {
                *sent = KnownStatus::Unknown;
            }
            let Some(status) = sent.next(before, wanted, omits_lists) else {
                let is_own = self.call.is_some_and(|call| call.key() == key);
                if matches!(*sent, KnownStatus::Nothing) && is_own && self.kind.is_same(&self.controller.kind) {
                    // An earlier call may have applied another one, whose late event calls no handler with `changed`.
                    self.controller.repeat_if_behind(key);
                }
                return Ok(false);
            };
            // Until there is a response; for good if there is none.
            *sent = KnownStatus::Unknown;
            uncertain.note(id);
            let applied = self.apply_status(key, uid, version, status.clone()).await;
            let is_rejected = |error: &AccessError| error.code().is_some_and(|code| code < 500);
            if applied.as_ref().err().is_none_or(|error| !was_uncertain && is_rejected(error)) {
                uncertain.forget(id);
            }
            applied?;
            *sent = KnownStatus::Status(status);
            Ok(true)
        })
    }

    async fn apply_status(
        &self,
        key: &ObjectKey,
        uid: &str,
        version: Option<String>,
        status: Value,
    ) -> Result<(), AccessError> {
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
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = version.into();
        }
        let applied = self.send_raw(key, Operation::ApplyStatus(body, self.controller.field_manager())).await?;
        self.take_over(&applied, true).await
    }
}
