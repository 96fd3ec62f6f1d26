//! Getting, creating, applying, patching, deleting, evicting.

use std::borrow::Borrow;

use kooper_runtime::object::Object;
use kooper_runtime::{Kind, ObjectKey};
use kube::api::{DeleteParams, Preconditions};
use serde::Serialize;

use super::error::{AccessError, controlled};
use super::grant::{MayApply, MayCreate, MayDelete, MayEvict, MayGet, MayPatch};
use super::patch::PatchBody;
use super::request::{Operation, ResourceClient, body};
use super::{Access, Request};
use crate::subset::selected;

/// Requests to the API server. A method compiles only if the argument's alias
/// grants it: [`Getter`](super::Getter) has `fetch`,
/// [`Creator`](super::Creator) has `create`, and so on.
// The futures are boxed: an opaque one would carry the bound of the verb, and
// the compiler would report it again for each use.
impl<T: Kind, V> Access<T, V> {
    /// Gets the object from the API server; `None` if it does not exist.
    ///
    /// # Errors
    /// If the API server rejects the request or does not respond, or the object
    /// does not decode as the type. A `Getter` of a [`Subset`](super::Subset) sends
    /// no request for other objects, and returns an error that is not retried.
    #[must_use]
    pub fn fetch<'a>(&'a self, key: &'a ObjectKey) -> Request<'a, Option<T>>
    where
        V: MayGet<T>,
    {
        let mut objects = self.objects();
        objects.subset = selected(&self.controller, V::subset());
        Box::pin(async move {
            match objects.send(key, Operation::Get).await {
                Ok(object) => answered(object, key).map(Some),
                Err(error) if error.is_gone() => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Creates an object and returns it as the API server stored it. Its
    /// namespace defaults to that of the call's object. Without a name it needs
    /// `metadata.generateName`.
    ///
    /// # Errors
    /// If an object of this name exists ([`AccessError::is_conflict`]; the message names
    /// the owner of one that a cache of the controller has), or the API server rejects the
    /// request or does not respond.
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
            if key.name().is_empty()
                && let Some(generate) = body["metadata"]["generateName"].as_str()
            {
                key = ObjectKey::new(key.namespace(), generate);
            }
            let created = objects.send(&key, Operation::Create(body)).await;
            answered(created.map_err(|error| objects.name_owner(&key, error))?, &key)
        })
    }

    /// Applies an object with server-side apply. It is created, or its fields
    /// are set, including those of other field managers. Fields that this
    /// controller applied before and that are no longer set are removed. A `uid`
    /// or `resourceVersion` in the metadata must match the object. Its namespace
    /// defaults to that of the call's object.
    ///
    /// Set only the fields that the controller decides: an object that was read
    /// and changed would own all of them. For a child of the call's object take
    /// [`OwnedApplier`](super::OwnedApplier): its
    /// [`apply_owned`](Self::apply_owned) checks the owner first.
    ///
    /// # Errors
    /// If the API server rejects the request or does not respond.
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

    /// Patches the object of this name.
    ///
    /// # Errors
    /// If it does not exist ([`AccessError::is_not_found`]), or the API server
    /// rejects the request or does not respond.
    #[must_use]
    pub fn patch<'a>(&'a self, key: &'a ObjectKey, patch: PatchBody) -> Request<'a, T>
    where
        V: MayPatch<T>,
    {
        let objects = self.objects();
        let operation = Operation::Patch(patch, self.controller.field_manager());
        Box::pin(async move { answered(objects.send(key, operation).await?, key) })
    }

    /// Patches this object, and not another one that has its name by now.
    ///
    /// # Errors
    /// If it no longer exists ([`AccessError::is_not_found`], or a conflict
    /// if another object has its name), or the API server rejects the request or
    /// does not respond.
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
            let key = ObjectKey::of(object);
            answered(objects.send(&key, Operation::Patch(patch, objects.controller.field_manager())).await?, &key)
        })
    }

    /// Deletes the object of this name. It is not an error if it does not exist.
    /// Objects with finalizers, and pods, are only marked for deletion and
    /// removed later.
    ///
    /// # Errors
    /// If the API server rejects the request or does not respond.
    #[must_use]
    pub fn delete<'a>(&'a self, key: &'a ObjectKey) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        self.delete_with(key, DeleteParams::default())
    }

    /// Deletes this object, and not another one that has its name by now. It is
    /// not an error if it no longer exists.
    ///
    /// # Errors
    /// If the API server rejects the request or does not respond.
    pub fn delete_object<'a>(&'a self, object: &'a T) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        let preconditions = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        let objects = self.objects();
        let params = DeleteParams::default().preconditions(preconditions);
        Box::pin(async move { objects.delete(&ObjectKey::of(object), params).await })
    }

    /// Deletes this object if it has not changed since it was read. It is not an
    /// error if it no longer exists.
    ///
    /// # Errors
    /// If it has changed ([`AccessError::is_conflict`]), was not read from the API server and
    /// so has no version, or the API server rejects the request or does not respond.
    pub fn delete_unchanged<'a>(&'a self, object: &'a T) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        let objects = self.objects();
        Box::pin(async move {
            let (uid, version) = (object.meta().uid.clone(), version_of(object)?);
            let preconditions = Preconditions { uid, resource_version: Some(version) };
            objects.delete(&ObjectKey::of(object), DeleteParams::default().preconditions(preconditions)).await
        })
    }

    /// Deletes with a custom grace period, propagation policy or preconditions.
    /// It is not an error if the object does not exist, or has another uid.
    /// Without a propagation policy, dependents are deleted in the background as
    /// with the other methods, such as the pods of a Job.
    ///
    /// # Errors
    /// If the API server rejects the request or does not respond.
    #[must_use]
    pub fn delete_with<'a>(&'a self, key: &'a ObjectKey, params: DeleteParams) -> Request<'a, ()>
    where
        V: MayDelete<T>,
    {
        let objects = self.objects();
        Box::pin(async move { objects.delete(key, params).await })
    }

    /// Evicts this pod, and not another one that has its name by now, if its
    /// PodDisruptionBudget allows it. It is not an error if it no longer
    /// exists.
    ///
    /// # Errors
    /// If a PodDisruptionBudget does not allow it now (the key is retried after
    /// the delay that the API server requests, or 5 seconds), or the API server
    /// rejects the request or does not respond.
    pub fn evict<'a>(&'a self, pod: &T) -> Request<'a, ()>
    where
        V: MayEvict<T>,
    {
        let objects = self.objects();
        let (key, uid) = (ObjectKey::of(pod), pod.meta().uid.clone());
        Box::pin(async move {
            let uid = uid.ok_or_else(|| {
                AccessError::wrong(format!("the pod `{key}` has no uid: evict a pod that was read from the API server"))
            })?;
            match objects.send(&key, Operation::Evict(uid)).await {
                Ok(_) => Ok(()),
                Err(error) if error.is_gone() || error.is_another() => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl ResourceClient<'_> {
    /// Adds to the error about a name that is taken whose object has it.
    fn name_owner(&self, key: &ObjectKey, error: AccessError) -> AccessError {
        let Some(known) = self.cached(key).filter(|_| error.exists()) else { return error };
        let owner = known.metadata().ok().and_then(|metadata| {
            let owner = metadata.controller()?;
            Some(format!("{} `{}` ({})", owner.kind, owner.name, owner.uid))
        });
        error.advised(&controlled(owner.as_deref()))
    }

    async fn delete(&self, key: &ObjectKey, params: DeleteParams) -> Result<(), AccessError> {
        let by_uid = params.preconditions.as_ref().is_some_and(|wanted| wanted.uid.is_some());
        match self.send(key, Operation::Delete(params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_gone() || (by_uid && error.is_another()) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The object in the response to a write.
pub(super) fn answered<T: Kind>(object: Option<impl Borrow<Object>>, key: &ObjectKey) -> Result<T, AccessError> {
    Ok(received(object, &T::kind(&()), key)?.borrow().decode()?)
}

/// Returns the object in the response to a write, or an error if there is none.
pub(super) fn received<O>(object: Option<O>, kind: &str, key: &ObjectKey) -> Result<O, AccessError> {
    object.ok_or_else(|| AccessError::Unanswered {
        verb: "write",
        kind: kind.to_owned(),
        object: key.clone(),
        source: "the response is not an object".into(),
    })
}

/// The version of an object that was read. Without one, a write would be to any version.
pub(super) fn version_of<T: Kind>(object: &T) -> Result<String, AccessError> {
    let version = object.meta().resource_version.clone().filter(|version| !version.is_empty());
    version.ok_or_else(|| {
        let (kind, key) = (T::kind(&()), ObjectKey::of(object));
        AccessError::wrong(format!(
            "{kind} `{key}` has no resource version, so it is not known whether it has changed: pass an object that was \
             read from the API server"
        ))
    })
}
