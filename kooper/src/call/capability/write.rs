//! Getting, creating, applying, patching, deleting, evicting.

use std::borrow::Borrow;

use kube::api::{DeleteParams, Preconditions};
use serde::Serialize;

use super::error::AccessError;
use super::grant::{MayApply, MayCreate, MayDelete, MayEvict, MayGet, MayPatch};
use super::patch::PatchBody;
use super::request::{Doing, Objects, body};
use super::{Access, Request};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::object::kind::Kind;

/// What the argument may do. A method compiles only where the argument's
/// alias grants it: [`Getter`](super::Getter) has `fetch`,
/// [`Creator`](super::Creator) `create`, and so on.
// The futures are boxed: an opaque one would carry the bound of the verb, and
// each of its uses would say again that it does not hold.
impl<T: Kind, V> Access<T, V> {
    /// The object as the API server has it; `None` where there is none.
    ///
    /// # Errors
    /// When the server refuses or does not answer, or the object does not fit
    /// the type.
    pub fn fetch<'a>(&'a self, key: &'a ObjectKey) -> Request<'a, Option<T>>
    where
        V: MayGet<T>,
    {
        let objects = self.objects();
        Box::pin(async move {
            match objects.send(key, Doing::Get).await {
                Ok(Some(object)) => Ok(Some(object.decode()?)),
                Ok(None) => Ok(None),
                Err(error) if error.is_gone() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Creates an object, and returns it as the server made it. Without a
    /// namespace it goes into that of the call's object; without a name it
    /// needs `metadata.generateName`.
    ///
    /// # Errors
    /// When an object of that name exists ([`AccessError::is_conflict`]), the server
    /// refuses for another reason, or does not answer.
    pub fn create<'a>(&'a self, object: &'a T) -> Request<'a, T>
    where
        T: Serialize,
        V: MayCreate<T>,
    {
        let objects = self.objects();
        Box::pin(async move {
            let mut body = body(object)?;
            if let Some(metadata) = body["metadata"].as_object_mut() {
                // Of an object that was copied.
                metadata.retain(|field, _| field != "uid" && field != "resourceVersion");
            }
            let mut key = objects.key_of(&mut body);
            if let (true, Some(generate)) = (key.name().is_empty(), body["metadata"]["generateName"].as_str()) {
                key = ObjectKey::new(key.namespace(), generate);
            }
            answered(objects.send(&key, Doing::Create(body)).await?, &key)
        })
    }

    /// Applies an object on the side of the server: it is created, or the
    /// fields that are set are corrected, also those that another manager has
    /// set. Fields that this controller applied before and that are not set
    /// any more are removed. A `uid` or `resourceVersion` in the metadata has
    /// to be the object's. Without a namespace it goes into that of the call's
    /// object.
    ///
    /// Set only what the controller decides: an object that was read and
    /// changed claims every field. For a child of the call's object,
    /// take [`OwnedApplier`](super::OwnedApplier): its
    /// [`apply_owned`](Self::apply_owned) looks first whose it is.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub fn apply<'a>(&'a self, object: &'a T) -> Request<'a, T>
    where
        T: Serialize,
        V: MayApply<T>,
    {
        let objects = self.objects();
        Box::pin(async move {
            let mut body = body(object)?;
            let key = objects.key_of(&mut body);
            answered(objects.apply(&key, body).await?.0, &key)
        })
    }

    /// Changes some fields of the object of this name.
    ///
    /// # Errors
    /// When there is none ([`AccessError::is_not_found`]), the server refuses for
    /// another reason, or does not answer.
    pub fn patch<'a>(&'a self, key: &'a ObjectKey, patch: PatchBody) -> Request<'a, T>
    where
        V: MayPatch<T>,
    {
        let objects = self.objects();
        let doing = Doing::Patch(patch, self.backing.field_manager());
        Box::pin(async move { answered(objects.send(key, doing).await?, key) })
    }

    /// Changes some fields of this object, and not of another that has its
    /// name by now.
    ///
    /// # Errors
    /// When it is gone ([`AccessError::is_not_found`], or a conflict where another
    /// has its name), the server refuses for another reason, or does not
    /// answer.
    pub fn patch_object<'a>(&'a self, object: &'a T, patch: PatchBody) -> Request<'a, T>
    where
        V: MayPatch<T>,
    {
        let patch = match &object.meta().uid {
            Some(uid) => patch.of_uid(uid),
            None => patch,
        };
        let objects = self.objects();
        Box::pin(async move {
            let key = key_of(object);
            answered(objects.send(&key, Doing::Patch(patch, objects.backing.field_manager())).await?, &key)
        })
    }

    /// Deletes the object of this name, whichever it is by now; one that is
    /// gone already is no error. An object with finalizers, and a pod, is only
    /// marked, and vanishes later.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub fn delete<'a>(&'a self, key: &'a ObjectKey) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        self.delete_with(key, DeleteParams::default())
    }

    /// Deletes this object, and not another that has its name by now; one that
    /// is gone already is no error.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub fn delete_object<'a>(&'a self, object: &'a T) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        let preconditions = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        let objects = self.objects();
        let params = DeleteParams::default().preconditions(preconditions);
        Box::pin(async move { objects.delete(&key_of(object), params).await })
    }

    /// Deletes this object if nobody has changed it since it was read; one
    /// that is gone already is no error.
    ///
    /// # Errors
    /// When it has changed ([`AccessError::is_conflict`]), the server refuses for
    /// another reason, or does not answer.
    pub fn delete_unchanged<'a>(&'a self, object: &'a T) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        let meta = object.meta();
        let preconditions = Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let objects = self.objects();
        let params = DeleteParams::default().preconditions(preconditions);
        Box::pin(async move { objects.delete(&key_of(object), params).await })
    }

    /// Deletes with a grace period, a propagation policy or preconditions of
    /// one's own; an object that is gone already is no error, and neither is
    /// one whose uid is another. Without a propagation policy dependents are
    /// deleted in the background, as by the other methods: a Job takes its
    /// pods along.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub fn delete_with<'a>(&'a self, key: &'a ObjectKey, params: DeleteParams) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        let objects = self.objects();
        Box::pin(async move { objects.delete(key, params).await })
    }

    /// Evicts this pod, and not another that has its name by now, as far as
    /// disruption budgets allow it; one that is gone already is no error.
    ///
    /// # Errors
    /// When a budget does not allow it now (the key is tried again when the
    /// server says so, after 5 seconds where it does not), the server refuses
    /// for another reason, or does not answer.
    pub fn evict<'a>(&'a self, pod: &T) -> Request<'a, ()>
    where
        V: MayEvict<T>,
    {
        let objects = self.objects();
        let (key, uid) = (key_of(pod), pod.meta().uid.clone());
        Box::pin(async move {
            let uid = uid.ok_or_else(|| {
                AccessError::wrong(format!("the pod `{key}` has no uid: evict a pod that was read from the API server"))
            })?;
            match objects.send(&key, Doing::Evict(uid)).await {
                Ok(_) => Ok(()),
                Err(error) if error.is_gone() || error.is_another() => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl Objects<'_> {
    async fn delete(&self, key: &ObjectKey, params: DeleteParams) -> Result<(), AccessError> {
        let by_uid = params.preconditions.as_ref().is_some_and(|wanted| wanted.uid.is_some());
        match self.send(key, Doing::Delete(params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_gone() || (by_uid && error.is_another()) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The object in the answer to a write.
pub(super) fn answered<T: Kind>(object: Option<impl Borrow<Object>>, key: &ObjectKey) -> Result<T, AccessError> {
    match object {
        Some(object) => Ok(object.borrow().decode()?),
        None => Err(AccessError::Unanswered {
            verb: "write",
            kind: T::kind(&()).into_owned(),
            object: key.clone(),
            source: "the answer is no object".into(),
        }),
    }
}

pub(super) fn key_of<T: Kind>(object: &T) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}
