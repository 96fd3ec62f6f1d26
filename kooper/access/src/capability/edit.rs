//! Reading, changing and writing an object, atomically.

use kooper_runtime::{Kind, ObjectKey};
use serde::Serialize;
use serde_json::{Value, json};

use super::error::AccessError;
use super::grant::MayPatch;
use super::patch::PatchBody;
use super::request::{CONFLICTS, Operation, ResourceClient, as_json, pause_after};
use super::write::{answered, received};
use super::{Access, Request};
use crate::rebase::rebase;
use crate::three_way_merge::merge_patch;

impl<T: Kind, V> Access<T, V> {
    /// Reads the object from the API server, lets `edit` change it, and writes the
    /// difference if no other client has changed the object meanwhile. Otherwise it
    /// begins again, six times at most: no change is lost, and no other client's is
    /// overwritten. [`Patcher`](super::Patcher) grants it.
    ///
    /// `edit` may be called several times, each time with the current object. Nothing is
    /// written if it changes nothing. Fields that the type does not have are kept. The
    /// status of a kind with the subresource `status` is not written.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kooper::Patcher;
    /// use kooper::prelude::*;
    ///
    /// /// Adds a line to a log that several objects write to.
    /// async fn log(object: Arc<ConfigMap>, logs: Patcher<ConfigMap>) -> Result<()> {
    ///     let line = format!("{}\n", object.name_any());
    ///     let key = ObjectKey::namespaced("shop", "log");
    ///     logs.edit(&key, |log| {
    ///         let text = log.data.get_or_insert_default().entry("lines".to_owned()).or_default();
    ///         if !text.contains(&line) {
    ///             text.push_str(&line);
    ///         }
    ///     })
    ///     .await?;
    ///     Ok(())
    /// }
    /// # let _ = ConfigMap::controller("log").handler(log).build().unwrap();
    /// ```
    ///
    /// # Errors
    /// If the object does not exist ([`AccessError::is_not_found`]) or does not decode as
    /// the type, other clients keep changing it ([`AccessError::is_conflict`]), or the API
    /// server rejects a request or does not respond.
    pub fn edit<'a>(&'a self, key: &'a ObjectKey, mut edit: impl FnMut(&mut T) + Send + 'a) -> Request<'a, T>
    where
        T: Serialize,
        V: MayPatch<T>,
    {
        let objects = self.objects();
        Box::pin(async move {
            let mut conflicts = 0;
            loop {
                match objects.edit_once(key, &mut edit).await {
                    Err(error) if error.has_changed() && conflicts < CONFLICTS => {}
                    ended => return ended,
                }
                conflicts += 1;
                pause_after(conflicts).await;
            }
        })
    }
}

impl ResourceClient<'_> {
    async fn edit_once<T: Kind + Serialize>(
        &self,
        key: &ObjectKey,
        edit: &mut (impl FnMut(&mut T) + Send),
    ) -> Result<T, AccessError> {
        let patch = |body| Operation::Patch(PatchBody::merge(body), self.controller.field_manager());
        // The permission to patch includes that to read: a patch that is empty returns the object.
        let live = received(self.send(key, patch(json!({}))).await?, &self.kind.kind, key)?;
        let mut object: T = live.decode()?;
        let before = as_json(&object)?;
        edit(&mut object);
        let after = as_json(&object)?;
        if before == after {
            return Ok(object);
        }
        let live: Value = live.decode()?;
        // The type may write what it has read in another form, such as a default, or 1.0 for 1.
        let (wanted, _) = rebase(&before, &after, &live);
        let mut difference = merge_patch(&live, &wanted);
        for condition in ["uid", "resourceVersion"] {
            difference["metadata"][condition] = live["metadata"][condition].clone();
        }
        answered(self.send(key, patch(difference)).await?, key)
    }
}
