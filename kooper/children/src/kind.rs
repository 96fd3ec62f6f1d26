//! The children of one kind by their type, behind a trait without it. Their slots may have been removed.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_access::capability::{PatchBody, by};
use kooper_access::extract::{Argument, Context};
use kooper_access::internal::{OWNER, note_marked};
use kooper_access::{Deleter, Patcher, Reader};
use kooper_runtime::internal::error::refusal::is_missing;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::store::Cache;
use kooper_runtime::object::Object;
use kooper_runtime::{BoxError, Kind};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, ObjectList, Preconditions, PropagationPolicy};
use kube::core::metadata::PartialObjectMeta;
use serde_json::json;
use tokio::time::timeout;

use crate::function::ChildKind;
use crate::graph::{PreviousKind, Recreate};
use crate::memory::{KnownChildren, address};
use crate::observed::{Child, ChildId};
use crate::plan::Cause;
use crate::readiness::Readiness;
use crate::record::{ChildObject, Found, controls, found, id_of, is_foreign, is_uncontrolled, key_of, owner, recorded};

/// The timeout of a list.
const LIST: Duration = Duration::from_secs(60);

pub(crate) type Request<'a, T> = BoxFuture<'a, Result<T, BoxError>>;

/// The children of one kind.
pub(crate) trait DynKind<P, S>: Send + Sync {
    /// The resource, such as `deployments.apps`.
    fn resource(&self) -> &str;

    /// The type of the children.
    fn child_type(&self) -> TypeId;

    /// Returns `true` while the cluster does not serve the kind.
    fn is_absent(&self, context: &Context<P, S>) -> bool;

    /// The place where children may exist that the caches do not have yet.
    fn unlisted(&self, context: &Context<P, S>) -> Option<String>;

    /// Asks the API server for a child of this controller that has no owner reference. `has_some` if there was one.
    fn find_marked<'a>(&'a self, context: &'a Context<P, S>, has_some: bool) -> Request<'a, Option<ChildId>>;

    /// Asks the API server for those of these children that exist. `slots` are the names of all slots.
    fn list_children<'a>(
        &'a self,
        context: &'a Context<P, S>,
        slots: &'a [Arc<str>],
        children: &'a [&'a ChildId],
    ) -> Request<'a, Vec<Found>>;

    /// The children of the owner. `slots` are the names of all slots. Without `deletion = ordered` all of them have
    /// owner references. Those that are `known` are not decoded.
    fn existing(
        &self,
        context: &Context<P, S>,
        slots: &[Arc<str>],
        is_ordered: bool,
        known: &KnownChildren,
    ) -> Result<Vec<Found>, BoxError>;

    fn delete<'a>(&'a self, context: &'a Context<P, S>, child: &ChildId, params: DeleteParams) -> Request<'a, ()>;

    fn release<'a>(&'a self, context: &'a Context<P, S>, child: &ChildObject) -> Request<'a, ()>;
}

/// A kind of children with its type.
pub(crate) struct TypedKind<T> {
    kind: KindInfo,
    resource: Arc<str>,
    children: PhantomData<fn() -> T>,
}

impl<T: ChildKind> TypedKind<T> {
    pub(crate) fn new() -> Self {
        let kind = KindInfo::of::<T>();
        Self { resource: kind.resource().into(), kind, children: PhantomData }
    }

    pub(crate) fn previous(&self) -> PreviousKind {
        PreviousKind { kind: self.kind.kind.clone(), resource: self.resource.clone() }
    }

    /// Lists the metadata of objects of a kind that the cache says is served. A 404 contradicts it, and is an error.
    async fn list<P, S>(
        &self,
        context: &Context<P, S>,
        params: &ListParams,
        place: Option<&str>,
    ) -> Result<Vec<PartialObjectMeta<T>>, BoxError> {
        let request = kube::core::Request::new(T::url_path(&(), place)).list_metadata(params)?;
        let client = context.controller().client();
        match timeout(LIST, client.request::<ObjectList<PartialObjectMeta<T>>>(request)).await {
            Ok(Ok(found)) => Ok(found.items),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(format!("the API server did not list {} in time", self.resource).into()),
        }
    }

    /// The caches of whole objects.
    fn caches<'a, P, S>(&'a self, context: &'a Context<P, S>) -> impl Iterator<Item = &'a Cache> {
        let caches = context.controller().caches.of_kind(&self.kind);
        caches.filter(|(id, _)| id.selected.is_none() && !id.metadata_only).map(|(_, cache)| cache)
    }
}

/// Returns `true` while the cluster does not serve a kind.
pub(crate) fn is_absent<P, S>(context: &Context<P, S>, kind: &KindInfo) -> bool {
    context.controller().caches.of_kind(kind).any(|(_, cache)| cache.is_unserved())
}

/// The parameters for the deletion of a child.
pub(crate) fn delete_params(uid: &str, version: Option<&str>, cause: Cause) -> DeleteParams {
    let policy = match cause {
        Cause::Recreate(Recreate::Orphan) => PropagationPolicy::Orphan,
        // So that it is gone after its dependents: pods of a Deployment still use what the next wave deletes, or the
        // volume of the one that is created instead.
        Cause::Wave(_) | Cause::Recreate(Recreate::Foreground) => PropagationPolicy::Foreground,
        Cause::Prune => PropagationPolicy::Background,
    };
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: version.map(str::to_owned) };
    DeleteParams { propagation_policy: Some(policy), preconditions: Some(preconditions), ..DeleteParams::default() }
}

impl<P: Kind, S: Send + Sync + 'static, T: ChildKind> DynKind<P, S> for TypedKind<T> {
    fn resource(&self) -> &str {
        &self.resource
    }

    fn child_type(&self) -> TypeId {
        TypeId::of::<T>()
    }

    fn is_absent(&self, context: &Context<P, S>) -> bool {
        is_absent(context, &self.kind)
    }

    fn unlisted(&self, context: &Context<P, S>) -> Option<String> {
        self.caches(context).find_map(Cache::unlisted)
    }

    fn find_marked<'a>(&'a self, context: &'a Context<P, S>, has_some: bool) -> Request<'a, Option<ChildId>> {
        async move {
            // A child in another namespace is rare, and seen before, unless this process has just taken over.
            if !has_some && (self.kind.namespaced || !KindInfo::of::<P>().namespaced) {
                return Ok(None);
            }
            let owner = owner(context);
            let of_owner = ListParams::default().labels(&format!("{OWNER}={}", owner.uid().unwrap_or_default()));
            let places = self.caches(context).flat_map(Cache::namespaces);
            let places: BTreeSet<_> = places.map(|namespace| namespace.map(str::to_owned)).collect();
            for place in places {
                let found = self.list(context, &of_owner, place.as_deref()).await?;
                let is_own = |child: &&PartialObjectMeta<T>| {
                    let child = &child.metadata;
                    is_uncontrolled(child) && !is_foreign(context.controller(), owner.meta(), child, &[])
                };
                if let Some(child) = found.iter().find(is_own) {
                    return Ok(Some(id_of(&*owner, child, &self.kind, self.resource.clone())));
                }
            }
            Ok(None)
        }
        .boxed()
    }

    fn list_children<'a>(
        &'a self,
        context: &'a Context<P, S>,
        slots: &'a [Arc<str>],
        children: &'a [&'a ChildId],
    ) -> Request<'a, Vec<Found>> {
        async move {
            let (owner, mut existing) = (owner(context), Vec::new());
            let uid = owner.uid().unwrap_or_default();
            for id in children {
                // Not by a label, which a policy may remove.
                let named = ListParams::default().fields(&format!("metadata.name={}", id.name));
                for child in self.list(context, &named, id.namespace.as_deref()).await? {
                    let is_marked = child.labels().get(OWNER) == Some(&uid) && is_uncontrolled(&child.metadata);
                    if is_marked || controls(owner.meta(), &child.metadata) {
                        let waits = Readiness::Waiting("it is not in the cache".into());
                        let record = recorded(context, &child, slots, waits);
                        let object = Arc::new(Object::parse(&serde_json::to_vec(&child)?)?);
                        existing.push(((*id).clone(), record, ChildObject::of_cache::<T>(object, None)));
                    }
                }
            }
            Ok(existing)
        }
        .boxed()
    }

    fn existing(
        &self,
        context: &Context<P, S>,
        slots: &[Arc<str>],
        is_ordered: bool,
        known: &KnownChildren,
    ) -> Result<Vec<Found>, BoxError> {
        let owner = owner(context);
        let reader = <Reader<T> as Argument<P, S, (_, ())>>::extract(context);
        let read = |object: Arc<Object>, is_marked: bool| -> Result<Option<Found>, BoxError> {
            let (namespace, name) = (object.key().namespace().map(Into::into), object.key().name().into());
            let id = ChildId { resource: self.resource.clone(), namespace, name };
            if let Some((_, child)) = known.get(address(&object)) {
                return Ok(Some((id, child.clone(), ChildObject::of_cache::<T>(object, None))));
            }
            let child = match object.decode::<T>() {
                Ok(child) => child,
                // Only its own slot waits, and a deletion needs its metadata alone.
                Err(error) => {
                    let child: PartialObjectMeta<T> = object.decode()?;
                    if !controls(owner.meta(), &child.metadata) && !is_marked {
                        return Ok(None);
                    }
                    let record = Child {
                        is_unreadable: true,
                        ..recorded(context, &child, slots, Readiness::Waiting(format!("it does not decode: {error}")))
                    };
                    return Ok(Some((id, record, ChildObject::of_cache::<T>(object, None))));
                }
            };
            if !controls(owner.meta(), child.meta()) && !is_marked {
                return Ok(None);
            }
            let (id, child, decoded) = found(context, Arc::new(child), slots)?;
            Ok(Some((id, child, ChildObject::of_cache::<T>(object, Some(decoded.get()?)))))
        };
        let mut children = Vec::new();
        for child in reader.undecoded(by::owner(&*owner)) {
            children.extend(read(child?, false)?);
        }
        if let Some(uid) = owner.uid().filter(|_| is_ordered) {
            for child in reader.undecoded(by::marked(&uid)) {
                let child = child?;
                // Another owner has adopted it.
                if child.metadata()?.controller().is_some() {
                    continue;
                }
                children.extend(read(child, true)?);
                note_marked(context.extensions(), &uid, context.key());
            }
        }
        Ok(children)
    }

    fn delete<'a>(&'a self, context: &'a Context<P, S>, child: &ChildId, params: DeleteParams) -> Request<'a, ()> {
        let key = key_of(child);
        async move {
            let deleter = <Deleter<T> as Argument<P, S, (_, ())>>::extract(context);
            match deleter.delete_with(&key, params).await {
                // It has changed: its event begins another pass.
                Err(error) if error.has_changed() => Ok(()),
                result => Ok(result?),
            }
        }
        .boxed()
    }

    fn release<'a>(&'a self, context: &'a Context<P, S>, child: &ChildObject) -> Request<'a, ()> {
        let child = child.metadata::<T>();
        async move {
            let child = child?;
            let uid = owner(context).uid();
            let others: Vec<_> = child.owner_references().iter().filter(|one| Some(&one.uid) != uid.as_ref()).collect();
            let labels = json!({(OWNER): null});
            let metadata =
                json!({"ownerReferences": others, "labels": labels, "resourceVersion": child.resource_version()});
            let patcher = <Patcher<PartialObjectMeta<T>> as Argument<P, S, (_, ())>>::extract(context);
            match patcher.patch_object(&child, PatchBody::merge(json!({"metadata": metadata}))).await {
                // It was deleted, and the event is late. A proxy's 404 does not name it: without its release, it would be
                // deleted with its owner.
                Err(error) if error.status().is_some_and(is_missing) => Ok(()),
                released => Ok(released.map(drop)?),
            }
        }
        .boxed()
    }
}
