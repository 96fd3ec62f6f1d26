//! Children: applied only where they are the owner's.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use super::error::AccessError;
use super::grant::MayApplyOwned;
use super::object::AsObject;
use super::owner::{describe, own};
use super::request::{Answer, Doing, Objects, body};
use super::write::answered;
use super::{Access, Request};
use crate::call::events::Note;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::object::kind::Kind;

/// A version that no object has: what is applied with it can only be created.
/// The server ignores it where there is no object, and it is a conflict where
/// there is one.
const NEVER: &str = "1";

impl<T: Kind + Serialize + Clone, V> Access<T, V> {
    /// Applies a child: the owner controls it, and it is deleted with it.
    /// [`OwnedApplier`](super::OwnedApplier) grants it.
    ///
    /// The cache of children says whose the object of that name is. There is
    /// none: it is created, and only created. It is the owner's: it is
    /// applied to the object with that uid, and never to a successor. It is
    /// anybody else's or nobody's: nothing is written, a Warning Event
    /// `ErrResourceExists` says so at the owner, and the error is
    /// [`AccessError::NotOurs`]. Two owners that name one child are told so in this
    /// way, and do not take it from each other.
    ///
    /// Where the server refuses because of an entry that somebody else has
    /// added to a list of the child, such as a port with the same name, that
    /// entry is removed, and an Event on the owner names it and who had set it.
    ///
    /// What was applied to this version of the child before, and changed
    /// nothing, is not sent again: a handler may call this in every pass.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::prelude::*;
    ///
    /// async fn password(owner: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
    ///     let mut child = Secret::default();
    ///     child.metadata.name = Some(format!("{}-password", owner.name_any()));
    ///     child.string_data = Some([("password".to_owned(), "open sesame".to_owned())].into());
    ///     secrets.apply_owned(&*owner, &child).await?;
    ///     Ok(())
    /// }
    ///
    /// let controller = kooper::Controller::builder::<ConfigMap>("passwords").handler(password);
    /// # let _ = controller.build().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`AccessError::NotOurs`] as said; when the owner cannot own it, or the server
    /// refuses or does not answer.
    pub fn apply_owned<'a, O, M>(&'a self, owner: &O, child: &T) -> Request<'a, T>
    where
        O: AsObject<M>,
        V: MayApplyOwned<T>,
    {
        self.apply_child(owner.as_object(), child, false)
    }

    /// As [`apply_owned`](Self::apply_owned), and takes over an object that
    /// nobody controls. One that another object controls is left to it.
    /// Entries that collide with those that are applied are removed, as from a
    /// child.
    ///
    /// # Errors
    /// As of [`apply_owned`](Self::apply_owned).
    pub fn adopt<'a, O, M>(&'a self, owner: &O, child: &T) -> Request<'a, T>
    where
        O: AsObject<M>,
        V: MayApplyOwned<T>,
    {
        self.apply_child(owner.as_object(), child, true)
    }

    /// The same argument, for a child that is the controller's alone: what
    /// others add beneath the lists and maps that the handler sets is removed
    /// when the child is applied, each with an Event on the owner. Without it
    /// only what collides with the handler's own fields is removed.
    ///
    /// Metadata and status stay everybody's, and so do fields beside those
    /// that the handler sets, such as the `replicas` that an autoscaler sets.
    /// Maps are those of Kubernetes' own kinds, such as `data`, `labels` or
    /// `limits`; lists are those with keys, and sets. What an admission webhook
    /// adds again is left to it, with an Event `ForeignEntryKept` on the owner,
    /// and so is what the server refuses to remove.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::prelude::*;
    ///
    /// async fn password(owner: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
    ///     let mut child = Secret::default();
    ///     child.metadata.name = Some(format!("{}-password", owner.name_any()));
    ///     child.string_data = Some([("password".to_owned(), "open sesame".to_owned())].into());
    ///     secrets.exclusive().apply_owned(&*owner, &child).await?;
    ///     Ok(())
    /// }
    /// # let _ = kooper::Controller::builder::<ConfigMap>("passwords").handler(password).build().unwrap();
    /// ```
    #[must_use = "apply by what it returns"]
    pub fn exclusive(&self) -> Self
    where
        V: MayApplyOwned<T>,
    {
        Self { exclusive: true, ..self.clone() }
    }

    fn apply_child<O>(&self, owner: &O, child: &T, adopt: bool) -> Request<'_, T>
    where
        O: Resource<DynamicType = (), Scope: 'static>,
    {
        let objects = self.objects();
        let prepared = own(owner, child.clone()).map_err(AccessError::from).and_then(|child| body(&child));
        let parent = Parent {
            name: describe(owner),
            uid: owner.meta().uid.clone().unwrap_or_default(),
            reference: owner.object_ref(&()),
        };
        Box::pin(async move {
            let mut body = prepared?;
            let key = objects.key_of(&mut body);
            answered(objects.apply_child(&parent, &key, body, adopt).await?, &key)
        })
    }
}

/// The owner of a child.
pub(super) struct Parent {
    name: String,
    uid: String,
    pub(super) reference: ObjectReference,
}

impl Parent {
    /// Whether an object as it was read has another controller by now.
    pub(super) fn has_lost(&self, live: &Value) -> bool {
        let owners = live["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| owner["controller"] == true && owner["uid"] != *self.uid)
    }
}

impl Objects<'_> {
    /// Applies as this controller, and takes over what former names of it had
    /// applied.
    pub(super) async fn apply(&self, key: &ObjectKey, body: Value) -> Result<Answer, AccessError> {
        let answer = self.exchange(key, Doing::Apply(body, self.backing.field_manager())).await?;
        self.take_over(answer.0.as_ref(), false).await?;
        Ok(answer)
    }

    async fn apply_child(
        &self,
        parent: &Parent,
        key: &ObjectKey,
        mut body: Value,
        adopt: bool,
    ) -> Result<Option<Arc<Object>>, AccessError> {
        let known = self.known_child(key)?;
        let metadata = &mut body["metadata"];
        let Some(known) = known else {
            metadata["resourceVersion"] = NEVER.into();
            return match self.apply(key, body).await {
                Err(error) if error.is_conflict() => {
                    Err(AccessError::Unseen { kind: self.kind.kind.clone(), object: key.clone() })
                }
                applied => Ok(applied?.0.map(Arc::new)),
            };
        };
        metadata["uid"] = known.uid().into();
        let known_metadata = known.metadata()?;
        match known_metadata.controller() {
            Some(controller) if controller.uid == parent.uid => return self.apply_to(parent, &known, body).await,
            None if adopt => metadata["resourceVersion"] = known.version().into(),
            other => {
                let owner = other.map(|one| format!("{} `{}` ({})", one.kind, one.name, one.uid));
                return Err(self.not_ours(parent, &known, owner));
            }
        }
        Ok(self.heal(parent, key, known.uid(), body).await?.map(Arc::new))
    }

    /// Applies to a child as the cache has it, unless that is known to change
    /// nothing. Where it does change something, the new version is not settled:
    /// the next pass sends once more.
    async fn apply_to(
        &self,
        parent: &Parent,
        known: &Arc<Object>,
        body: Value,
    ) -> Result<Option<Arc<Object>>, AccessError> {
        let digest = digest(&self.backing.field_manager(), self.exclusive, &body);
        if known.is_settled(digest) {
            return Ok(Some(known.clone()));
        }
        let applied = self.heal(parent, known.key(), known.uid(), body).await?;
        if applied.as_ref().is_some_and(|applied| applied.version() == known.version()) {
            known.settle(digest);
        }
        Ok(applied.map(Arc::new))
    }

    /// What the cache of children has of this name.
    fn known_child(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, AccessError> {
        let cache = self.backing.cache(self.cache);
        if !cache.covers(key.namespace()) {
            let kind = &self.kind.kind;
            return Err(AccessError::wrong(format!(
                "{kind} `{key}` is in a namespace that the controller `{}` does not watch: it cannot know whose it is",
                self.backing.controller
            )));
        }
        Ok(cache.get(key))
    }

    fn not_ours(&self, parent: &Parent, known: &Object, owner: Option<String>) -> AccessError {
        let error = AccessError::NotOurs {
            kind: self.kind.kind.clone(),
            object: known.key().clone(),
            wanted: parent.name.clone(),
            owner,
        };
        let ObjectReference { namespace, name, .. } = &parent.reference;
        let owner = ObjectKey::new(namespace.as_deref(), name.as_deref().unwrap_or_default());
        self.backing.contested.wait(self.cache, known.key(), owner);
        self.backing.events.publish(Note {
            regarding: parent.reference.clone(),
            related: Some(self.reference(known)),
            warning: true,
            reason: "ErrResourceExists".to_owned(),
            action: "Apply".to_owned(),
            message: error.to_string(),
        });
        error
    }
}

/// What is applied, and as whom; never 0, which stands for nothing.
fn digest(manager: &str, exclusive: bool, body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (manager, exclusive, body.to_string()).hash(&mut hasher);
    NonZero::new(hasher.finish()).map_or(1, NonZero::get)
}
