//! Children: applied only if they belong to the owner.

use std::sync::Arc;

use kooper_runtime::error::StaleCache;
use kooper_runtime::internal::call::extensions::Extensions;
use kooper_runtime::internal::object::as_object::AsObject;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::internal::watch::store::Cache;
use kooper_runtime::object::Object;
use kooper_runtime::{Kind, Note, ObjectKey};
use kooper_sharding::{BUCKET, bucket_of_owner};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::children::{Children, hash};
use super::error::AccessError;
use super::grant::MayApplyOwned;
use super::owner::{ADOPTED, OwnerError, Parent, Relation, mark, own};
use super::patch::PatchBody;
use super::request::{ApiResponse, Operation, ResourceClient, body};
use super::write::answered;
use super::{Access, Request};

/// A resource version that no object has, so that an apply can only create. The
/// API server ignores it if there is no object, and returns a conflict if there
/// is one.
pub(crate) const NEVER: &str = "1";

impl<T: Kind + Serialize + Clone, V> Access<T, V> {
    /// Applies a child and sets its owner reference: the owner controls it, and
    /// it is deleted with the owner. [`OwnedApplier`](super::OwnedApplier)
    /// grants it.
    ///
    /// The cache of children has the current owner of the object:
    ///
    /// - If there is no object, it is created, and never applied to another
    ///   client's object.
    /// - If it belongs to the owner, it is applied to the object with this uid,
    ///   and never to its successor.
    /// - If it belongs to another owner, or to none, nothing is written. A
    ///   Warning Event `ErrResourceExists` is recorded on the owner, and the
    ///   error is [`AccessError::NotOurs`].
    ///
    /// If the API server rejects the child because of an entry that another
    /// client added, such as a port with the same name, this entry is removed.
    /// An Event on the owner names the entry and its field manager.
    ///
    /// An apply that is known to change nothing is not sent again, so a handler
    /// can call this every time. If the cache of children has only metadata, the
    /// returned child then has the metadata of the cache, and for the rest the
    /// fields that were passed.
    ///
    /// A child of an owner that is being deleted would only delay the deletion:
    /// nothing is written, and the error is [`AccessError::OwnerTerminating`]. A handler
    /// returns it with `?`: if the deletion arrived during its call, that is no failure.
    ///
    /// A child that is deleted again and again is created at once five times, and
    /// then every ten seconds; the error between is [`AccessError::DeletedAgain`].
    /// It is what happens while the cache does not have the deletion of the owner
    /// yet, because the garbage collector deletes the child.
    ///
    /// If `owns` selects some children only, a child that would not be selected is
    /// rejected before anything is written. A child that another client has taken
    /// out of the selection is found, and its labels are restored.
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
    /// let controller = ConfigMap::controller("passwords").handler(password);
    /// # let _ = controller.build().unwrap();
    /// ```
    ///
    /// # Errors
    /// [`AccessError::NotOurs`], [`AccessError::OwnerTerminating`] and [`AccessError::DeletedAgain`], see above. Also
    /// if the owner cannot own the child, `owns` does not select it, or the API server rejects the request or does not respond.
    pub fn apply_owned<'a, O, M>(&'a self, owner: &O, child: &T) -> Request<'a, T>
    where
        O: AsObject<M>,
        V: MayApplyOwned<T>,
    {
        let owner = owner.as_object();
        self.apply_child(Parent::of(owner), own(owner, child.clone()), OwnedApplyOptions::default())
    }

    /// Like [`apply_owned`](Self::apply_owned), and also takes over an object
    /// that has no controlling owner. An object of another owner is not changed.
    ///
    /// An object that is taken over gets the label `kooper.rs/adopted`, which later applies keep: a version of the
    /// program that declares it in `children` does not prune it by default.
    ///
    /// With the admission plugin `OwnerReferencesPermissionEnforcement`, the API server lets only those set an owner who
    /// may delete the object: a handler that adopts also takes a [`Deleter`](super::Deleter).
    ///
    /// # Errors
    /// Like [`apply_owned`](Self::apply_owned).
    pub fn adopt<'a, O, M>(&'a self, owner: &O, child: &T) -> Request<'a, T>
    where
        O: AsObject<M>,
        V: MayApplyOwned<T>,
    {
        let owner = owner.as_object();
        self.apply_child(Parent::of(owner), own(owner, child.clone()), OwnedApplyOptions { adopt: true, once: false })
    }

    /// The same argument, for children that no other client may extend. Entries
    /// that others add to the lists and maps that the handler sets are removed
    /// when the child is applied, each with an Event on the owner. Without this,
    /// only entries that collide with the handler's own are removed.
    ///
    /// Metadata, status and other fields are not affected, such as the
    /// `replicas` that an autoscaler sets. Maps are those of built-in kinds, such
    /// as `data`, `labels` or `limits`. Lists are those with keys, and sets. An
    /// entry that an admission webhook adds again, or that cannot be removed, is
    /// kept, with an Event `ForeignEntryKept` on the owner.
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
    /// # let _ = ConfigMap::controller("passwords").handler(password).build().unwrap();
    /// ```
    #[must_use = "call `apply_owned` on the returned value"]
    pub fn exclusive(&self) -> Self
    where
        V: MayApplyOwned<T>,
    {
        Self { exclusive: true, ..self.clone() }
    }

    /// Like [`apply_owned`](Self::apply_owned) or [`adopt`](Self::adopt), for the version of the child that the caller has.
    /// Returns `None` if the cache has no other one, and applying it would change nothing. A child that cannot have an owner
    /// reference, as it is cluster-scoped or in another namespace, is marked: it has the uid of its owner as a label, by
    /// which it belongs to this owner, and is not deleted with it.
    #[doc(hidden)]
    pub fn apply_declared<'a, O, M>(
        &'a self,
        owner: &O,
        child: &T,
        options: OwnedApplyOptions,
        is_marked: bool,
        version: Option<&'a str>,
    ) -> Request<'a, Option<T>>
    where
        O: AsObject<M>,
        V: MayApplyOwned<T>,
    {
        let owner = owner.as_object();
        let parent = Parent { is_marked, ..Parent::of(owner) };
        let child = if is_marked {
            self.objects().children.marked.note(&parent.uid, &parent.key());
            mark(owner, child.clone())
        } else {
            own(owner, child.clone())
        };
        let applying = self.apply_as_child(parent, child, options);
        Box::pin(async move {
            let (applied, key) = applying.await?;
            match applied {
                Applied::Settled(known, _) if Some(known.version()) == version => Ok(None),
                applied => answered(self.objects().object_of(applied)?, &key).map(Some),
            }
        })
    }

    fn apply_child(&self, parent: Parent, child: Result<T, OwnerError>, options: OwnedApplyOptions) -> Request<'_, T> {
        let applying = self.apply_as_child(parent, child, options);
        Box::pin(async move {
            let (applied, key) = applying.await?;
            answered(self.objects().object_of(applied)?, &key)
        })
    }

    fn apply_as_child(
        &self,
        parent: Parent,
        child: Result<T, OwnerError>,
        options: OwnedApplyOptions,
    ) -> Request<'_, (Applied, ObjectKey)> {
        let objects = self.objects();
        let prepared = child.map_err(AccessError::from).and_then(|child| body(&child));
        Box::pin(async move {
            let mut body = prepared?;
            let key = objects.key_of(&mut body);
            if objects.children.are_shared {
                body["metadata"]["labels"][BUCKET] = bucket_of_owner(&parent.uid).into();
            }
            Ok((objects.apply_child(&parent, &key, body, options).await?, key))
        })
    }
}

/// Notes the owner of children without owner references, so that a change of one queues it.
pub fn note_marked(extensions: &Extensions, uid: &str, owner: &ObjectKey) {
    extensions.get::<Children>().marked.note(uid, owner);
}

/// Returns `true` if this process has seen or applied children without owner references of the owner with this uid.
pub fn has_marked(extensions: &Extensions, uid: &str) -> bool {
    extensions.get::<Children>().marked.knows(uid)
}

/// The treatment of an object that exists.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnedApplyOptions {
    /// One that belongs to no owner becomes a child.
    pub adopt: bool,
    /// Its fields are left as they are.
    pub once: bool,
}

/// A child after an apply.
enum Applied {
    /// Nothing was sent, because it is known that this object would not change. With the applied body.
    Settled(Arc<Object>, Value),
    /// The object in the response.
    Sent(Option<Arc<Object>>),
}

impl ResourceClient<'_> {
    /// Applies as this controller, and takes over the fields of its previous names.
    pub(super) async fn apply(&self, key: &ObjectKey, body: Value) -> Result<ApiResponse, AccessError> {
        let answer = self.send_raw(key, Operation::Apply(body, self.controller.field_manager())).await?;
        self.take_over(&answer, false).await?;
        Ok(answer)
    }

    /// Boxed, as [`send_raw`](Self::send_raw) is.
    fn apply_child<'a>(
        &'a self,
        parent: &'a Parent,
        key: &'a ObjectKey,
        mut body: Value,
        options: OwnedApplyOptions,
    ) -> Request<'a, Applied> {
        Box::pin(async move {
            self.check_owner(parent, key)?;
            self.check_shown(key, &body)?;
            let known = self.known_child(key)?;
            let known = match known {
                Some(known) => known,
                None => {
                    self.check_pause(parent, key)?;
                    if let Some(metadata) = body["metadata"].as_object_mut() {
                        // It is that of the object that was copied.
                        metadata.remove("uid");
                        metadata.insert("resourceVersion".to_owned(), NEVER.into());
                    }
                    match self.apply(key, body.clone()).await {
                        Err(error) if error.is_conflict() => {
                            if let Some(metadata) = body["metadata"].as_object_mut() {
                                metadata.remove("resourceVersion");
                            }
                            self.hidden_child(key).await?
                        }
                        applied => {
                            let applied = applied?;
                            self.children.creations.note(&parent.key(), &self.kind, key, Instant::now());
                            let applied = self.restore_selected_labels(parent, key, &body, applied.0).await?;
                            if let (Some(applied), Some(metadata)) = (&applied, body["metadata"].as_object_mut()) {
                                metadata.remove("resourceVersion");
                                metadata.insert("uid".to_owned(), applied.uid().into());
                                self.note_applied(parent, applied, self.digest(&body));
                            }
                            return Ok(Applied::Sent(applied.map(Arc::new)));
                        }
                    }
                }
            };
            if let Some(metadata) = body["metadata"].as_object_mut() {
                // The version of an object that was copied is no condition for this one.
                if metadata.get("uid").is_some_and(|uid| *uid != *known.uid()) {
                    metadata.remove("resourceVersion");
                }
                metadata.insert("uid".to_owned(), known.uid().into());
            }
            let digest = self.digest(&body);
            let is_response =
                || self.children.unconfirmed.confirm(&parent.key(), (&self.kind, key), (known.version(), digest));
            // This version was a child of this owner when it was settled.
            if known.is_settled(digest) || is_response() {
                known.settle(digest);
                return Ok(Applied::Settled(known, body));
            }
            let metadata = known.metadata()?;
            let relation = parent.relation(&metadata);
            // In the write that adopts it, and in all later ones, which would remove the label otherwise.
            if metadata.labels.contains_key(ADOPTED) || options.adopt && matches!(relation, Relation::Free) {
                body["metadata"]["labels"][ADOPTED] = "true".into();
            }
            match relation {
                // The caches did not have it a moment ago.
                Relation::Child if options.once => {
                    let labels = &metadata.labels;
                    let wanted = body["metadata"]["labels"].as_object().into_iter().flatten();
                    let mut differs =
                        wanted.map(|(name, value)| labels.get(name).map(String::as_str) != value.as_str());
                    return if differs.any(|differs| differs) {
                        self.own_as_it_is(&known, &body).await
                    } else {
                        Ok(Applied::Sent(Some(known)))
                    };
                }
                Relation::Child => return self.apply_to(parent, &known, body, digest).await,
                Relation::Free if options.adopt && options.once => return self.own_as_it_is(&known, &body).await,
                Relation::Free if options.adopt => body["metadata"]["resourceVersion"] = known.version().into(),
                Relation::Free => return Err(self.not_ours(parent, &known, None)),
                Relation::Other(owner) => return Err(self.not_ours(parent, &known, Some(owner))),
            }
            let applied = self.remove_conflicting_fields(parent, key, known.uid(), body.clone()).await?;
            let applied = self.restore_selected_labels(parent, key, &body, applied).await?;
            Ok(Applied::Sent(applied.map(Arc::new)))
        })
    }

    /// Makes an object a child, and changes nothing else of it.
    async fn own_as_it_is(&self, known: &Object, body: &Value) -> Result<Applied, AccessError> {
        let (wanted, is): (&Value, Value) = (&body["metadata"], known.decode()?);
        let references = |metadata: &Value| metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let mut owners = references(wanted);
        let others =
            references(&is["metadata"]).into_iter().filter(|one| owners.iter().all(|own| own["uid"] != one["uid"]));
        let others: Vec<_> = others.collect();
        owners.extend(others);
        let metadata = json!({
            "uid": known.uid(),
            "resourceVersion": known.version(),
            "labels": wanted["labels"],
            "ownerReferences": owners,
        });
        let patch = PatchBody::merge(json!({"metadata": metadata}));
        let answer = self.send(known.key(), Operation::Patch(patch, self.controller.field_manager())).await?;
        Ok(Applied::Sent(answer.map(Arc::new)))
    }

    /// Rejects a child whose owner is being deleted, as far as the caller or the cache
    /// of the controller's own objects knows.
    fn check_owner(&self, parent: &Parent, key: &ObjectKey) -> Result<(), AccessError> {
        let now = self.controller.own.get(&parent.key()).filter(|now| now.uid() == parent.uid);
        if parent.terminating || now.is_some_and(|now| now.is_terminating()) {
            return Err(AccessError::owner_terminating(&self.kind.kind, key, &parent.name));
        }
        Ok(())
    }

    /// Rejects the creation of a child that was created and deleted again and again.
    fn check_pause(&self, parent: &Parent, key: &ObjectKey) -> Result<(), AccessError> {
        match self.children.creations.pause(&parent.key(), &self.kind, key, Instant::now()) {
            Some(pause) => Err(AccessError::deleted_again(&self.kind.kind, key, &parent.name, pause)),
            None => Ok(()),
        }
    }

    /// Applies to a cached child.
    async fn apply_to(
        &self,
        parent: &Parent,
        known: &Arc<Object>,
        body: Value,
        digest: u64,
    ) -> Result<Applied, AccessError> {
        let applied = self.remove_conflicting_fields(parent, known.key(), known.uid(), body.clone()).await?;
        let applied = self.restore_selected_labels(parent, known.key(), &body, applied).await?;
        match &applied {
            Some(applied) if applied.version() == known.version() => known.settle(digest),
            Some(applied) => self.note_applied(parent, applied, digest),
            None => {}
        }
        Ok(Applied::Sent(applied.map(Arc::new)))
    }

    /// Notes a version that the cache may not have yet.
    fn note_applied(&self, parent: &Parent, applied: &Object, digest: u64) {
        let version = (applied.version(), digest);
        self.children.unconfirmed.note(parent.key(), (&self.kind, applied.key()), version);
    }

    /// A digest of the applied body and field manager; never 0, which means none.
    fn digest(&self, body: &Value) -> u64 {
        hash((self.controller.field_manager(), self.exclusive, body.to_string())).max(1)
    }

    fn object_of(&self, applied: Applied) -> Result<Option<Arc<Object>>, AccessError> {
        match applied {
            Applied::Settled(known, body) => self.settled(&known, body).map(Some),
            Applied::Sent(object) => Ok(object),
        }
    }

    /// A child that applying it would not change. A cache of metadata does not have
    /// the rest of it, which is what was applied.
    fn settled(&self, known: &Arc<Object>, body: Value) -> Result<Arc<Object>, AccessError> {
        let mut children = self.children();
        if children.any(|(id, cache)| !id.metadata_only && cache.get(known.key()).is_some()) {
            return Ok(known.clone());
        }
        let (mut whole, metadata): (Value, Value) = (body, known.decode()?);
        whole["metadata"] = metadata["metadata"].clone();
        let whole = Object::parse(whole.to_string().as_bytes());
        whole.map(Arc::new).map_err(AccessError::wrong)
    }

    /// The caches of children of this kind.
    fn children(&self) -> impl Iterator<Item = (CacheId, &Cache)> {
        let caches = self.controller.caches.of_kind(&self.kind);
        caches.filter(|(id, _)| self.children.caches.contains(id))
    }

    /// An object that exists, and that no cache of children has: another client may
    /// have removed a label that selects it.
    async fn hidden_child(&self, key: &ObjectKey) -> Result<Arc<Object>, AccessError> {
        let unseen = || AccessError::Unseen { kind: self.kind.kind.clone(), object: key.clone(), source: StaleCache };
        if !self.may_be_hidden() {
            return Err(unseen());
        }
        match self.send(key, Operation::Get).await {
            Ok(found) => found.map(Arc::new).ok_or_else(unseen),
            // It was deleted meanwhile.
            Err(error) if error.is_gone() => Err(unseen()),
            Err(error) => Err(error),
        }
    }

    /// The object of this name in the caches of children.
    fn known_child(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, AccessError> {
        if !self.children().any(|(_, cache)| cache.covers(key.namespace())) {
            let kind = &self.kind.kind;
            return Err(AccessError::wrong(format!(
                "{kind} `{key}` is in a namespace that the controller `{}` does not watch, so its owner is not known",
                self.controller.controller
            )));
        }
        let found = self.children().find_map(|(_, cache)| cache.get(key));
        Ok(found)
    }

    fn not_ours(&self, parent: &Parent, known: &Object, owner: Option<String>) -> AccessError {
        let error = AccessError::NotOurs {
            kind: self.kind.kind.clone(),
            object: known.key().clone(),
            wanted: parent.name.clone(),
            owner,
        };
        self.children.contested.wait(&self.kind, known.key(), parent.key());
        let mut note = Note::warning(parent.reference.clone(), "ErrResourceExists", "Apply", error.to_string());
        note.related = Some(self.reference(known));
        self.controller.events.publish(note);
        error
    }
}

#[cfg(test)]
mod tests;
