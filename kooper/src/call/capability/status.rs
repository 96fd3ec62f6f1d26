//! Writing the status of an object.

use serde::Serialize;
use serde_json::{Value, json};

use super::error::AccessError;
use super::grant::MayWriteStatus;
use super::has_status::HasStatus;
use super::request::{Doing, Objects};
use super::write::key_of;
use super::{Access, Request};
use crate::call::statuses::Sent;
use crate::object::key::ObjectKey;
use crate::object::kind::Kind;

impl<T: Kind, V> Access<T, V> {
    /// Applies the status of an object, the whole of what this controller has
    /// to say in it. Nothing is sent where the object has this status
    /// already, or the call has sent it last. A condition whose `status` is as
    /// it was keeps its `lastTransitionTime`. Answers whether something was
    /// sent.
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
    /// When the object is gone ([`AccessError::is_not_found`]), the server refuses
    /// for another reason, or does not answer.
    pub fn apply_status<'a, M>(&'a self, object: &T, status: &T::Status) -> Request<'a, bool>
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
        let (objects, key) = (self.objects(), key_of(object));
        let uid = object.meta().uid.clone().unwrap_or_default();
        Box::pin(async move {
            let (before, wanted) = wanted?;
            // Without a call nothing tells how old the object is.
            let sent = objects.call.map(|call| call.statuses.of(&objects.kind.resource(), &key, &uid));
            let mut sent = match &sent {
                Some(sent) => sent.lock().await,
                None => {
                    let status = Sent::Unknown.next(&before, wanted);
                    objects.apply_status(&key, &uid, status.unwrap_or_default()).await?;
                    return Ok(true);
                }
            };
            let Some(status) = sent.next(&before, wanted) else { return Ok(false) };
            // Until it is answered, or for ever where it fails or is given up.
            *sent = Sent::Unknown;
            objects.apply_status(&key, &uid, status.clone()).await?;
            *sent = Sent::Status(status);
            Ok(true)
        })
    }
}

impl Objects<'_> {
    async fn apply_status(&self, key: &ObjectKey, uid: &str, status: Value) -> Result<(), AccessError> {
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
