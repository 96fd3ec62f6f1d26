//! Queues keys because of changes in the stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;

use super::handled::HandledObjects;
use crate::call::Gone;
use crate::call::context::ControllerContext;
use crate::call::finalizer::Finalizers;
use crate::call::handler::Predicate;
use crate::call::observer::Observers;
use crate::call::worker::{Daemons, Grants, Tombstone, Tombstones, Undecodable};
use crate::controller::namespaces::Namespaces;
use crate::controller::parts::MapKeys;
use crate::metrics::Counter;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::object::sections::Changed;
use crate::object::{DecodeError, Metadata, Object, differs};
use crate::queue::reason::Reason;
use crate::queue::{AddOptions, CacheRef, Lane, Revision, Urgency, WorkQueue};
use crate::watch::cache_id::CacheId;
use crate::watch::informer::{ChangeSource, Signal, Sink};
use crate::watch::namespaces::NamespaceSelection;
use crate::watch::store::{Cache, Change};

/// The entrance to a controller's queue, for its watches.
pub(super) struct Enqueuer {
    /// The controller: its name, its queue and its metrics.
    pub(super) controller: Arc<ControllerContext>,
    /// The namespaces whose keys may be handled.
    pub(super) namespaces: Arc<Namespaces>,
    /// Closed while another replica leads: no worker takes keys then, and every
    /// key is queued when this replica acquires leadership.
    pub(super) open: AtomicBool,
    pub(super) grants: Arc<Grants>,
    /// Observes which keys nothing is called for.
    pub(super) observer: Arc<Observers>,
}

/// Closes the enqueuer when the controller has ended, for whatever reason.
pub(super) struct CloseOnDrop(pub(super) Arc<Enqueuer>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Enqueuer {
    fn queue(&self) -> &WorkQueue {
        &self.controller.queue
    }

    fn count(&self, counter: Counter) {
        self.controller.metrics.count(&self.controller.controller, counter);
    }

    fn count_event(&self) {
        self.controller.metrics.inc_event_queued(&self.controller.controller, false);
    }

    /// Queues a key because of a change of an object in a cache, unless the key's `own` object waits for its shard.
    fn add(
        &self,
        (key, own): (&ObjectKey, Option<&Object>),
        (lane, debounced): (Lane, bool),
        reason: Reason,
        cache: CacheRef,
        (change, seen): (&Change, ChangeSource),
        urgency: impl Fn(&Change) -> Urgency,
    ) {
        // A failing or running key is queued although it waits: the change may end its back-off.
        let waits = |own: &Object| self.grants.waits(own) && !self.queue().uses_urgency(key);
        if !self.is_open_to(key) || own.is_some_and(waits) || !self.grants.admission.admits(key) {
            return;
        }
        let urgency = || urgency(change);
        let options = AddOptions { debounced, ..AddOptions::new(lane, Urgency::Soon) };
        match change.last() {
            Some(object) if seen == ChangeSource::Watched => {
                let event = || Revision::event(cache, object, change.new.is_none());
                self.queue().add_from_event(key, reason, options, urgency, event);
            }
            // An object in a list may contain changes beside the own write.
            _ => self.queue().add_with_options(key, reason, AddOptions { urgency: urgency(), ..options }),
        }
        self.count_event();
    }

    /// Queues a key for a reason that is not a change of an object.
    pub(super) fn wake(&self, key: &ObjectKey, lane: Lane, reason: Reason, urgency: Urgency) {
        if self.admits(key) {
            self.queue().add_with_options(key, reason, AddOptions::new(lane, urgency));
            self.count_event();
        }
    }

    /// Notifies the observers of a change that belongs to a deletion.
    fn observe_deletion(&self, change: &Change) {
        if change.new.as_ref().is_none_or(|new| new.is_terminating()) {
            self.observer.each(|one| one.deletion(change));
        }
    }

    /// Forgets a key that is not handled any more, although its object exists. A worker that takes
    /// it finds no object.
    fn left(&self, key: &ObjectKey) {
        self.controller.child_observer.owner_gone(key);
        self.observer.each(|one| one.ignored(key));
        self.queue().forget(key);
    }

    /// Plans the resync of a key that needs no run now.
    fn schedule_resync(&self, key: &ObjectKey) {
        // A closed enqueuer ignores deletions, so the key would never be removed.
        if self.grants.admission.repeats() && self.is_open_to(key) {
            self.queue().schedule_resync(key);
        }
    }

    /// Empties the queue: another replica leads and handles these keys.
    pub(super) fn close(&self) {
        self.open.store(false, Ordering::SeqCst);
        self.queue().clear();
    }

    /// Returns `true` if a key is queued now.
    fn admits(&self, key: &ObjectKey) -> bool {
        self.is_open_to(key) && self.grants.admission.admits(key)
    }

    fn is_open_to(&self, key: &ObjectKey) -> bool {
        self.open.load(Ordering::SeqCst) && self.namespaces.is_synced(key.namespace())
    }
}

/// Changes of the controller's own objects.
pub(super) struct EventHandler {
    pub(super) enqueuer: Arc<Enqueuer>,
    pub(super) wants: Predicate,
    /// `when` is set.
    pub(super) has_filter: bool,
    /// Which objects the function for paused ones is called for.
    pub(super) paused: Option<Predicate>,
    pub(super) while_deleting: bool,
    pub(super) changed: Vec<Changed>,
    /// Only the metadata of the objects is fetched.
    pub(super) metadata_only: bool,
    /// The daemons that a change cancels; `None` for a handler.
    pub(super) daemons: Option<Arc<Daemons>>,
    /// The removed objects for `deleted`; `None` if the controller has no such function.
    pub(super) tombstones: Option<Arc<Tombstones>>,
    pub(super) undecodable: Arc<Undecodable>,
    /// Of a controller whose objects may leave with their namespace.
    pub(super) namespaces: Option<Arc<NamespaceSelection>>,
    /// The metadata of all objects, and the finalizers of those that it cleans up.
    pub(super) unselected: Option<(Cache, Finalizers)>,
}

impl EventHandler {
    /// Keeps the last state of a removed object if `deleted` is set.
    fn keep_removed(&self, key: &ObjectKey, last: &Arc<Object>, gone: Gone) -> bool {
        let Some(tombstones) = self.tombstones.as_ref().filter(|_| self.enqueuer.is_open_to(key)) else { return false };
        let awaited = self.enqueuer.grants.admission.await_deleted(last);
        tombstones.add(key, Tombstone { object: last.clone(), gone, awaited })
    }

    /// Returns `true` if an object is paused, and was not before.
    fn begins_to_be_paused(&self, change: &Change) -> bool {
        let is_paused = |object: &Arc<Object>| self.paused.as_ref().is_some_and(|is_paused| is_paused(object));
        change.new.as_ref().is_some_and(|new| {
            let before = change.old.as_ref().filter(|old| old.uid() == new.uid());
            is_paused(new) && !before.is_some_and(is_paused)
        })
    }

    /// Returns `true` if `changed` counts the difference between two versions of an object.
    fn counts(&self, old: &Object, new: &Object) -> bool {
        // Without a generation the content counts, which is not here: any change may be one of it. A daemon is left
        // alone, as each write of a status would restart it.
        let content_counts =
            self.metadata_only && self.daemons.is_none() && self.changed.contains(&Changed::Generation);
        let lacks_generation = || new.metadata().is_ok_and(|metadata| metadata.generation.is_none());
        differs(old, new, &self.changed) || content_counts && lacks_generation()
    }

    /// Returns `true` if an object was filtered out, and is not any more. It is like a new one: the changes before have
    /// called no handler.
    fn begins_to_match(&self, old: &Object, new: &Object) -> bool {
        self.has_filter && (self.wants)(new) && !(self.wants)(old)
    }

    /// Returns `true` if an object has our finalizer by either of two caches, which may lag behind each other.
    fn is_held(&self, object: &Object) -> bool {
        self.unselected.as_ref().is_some_and(|(all, finalizers)| {
            let is_marked = |object: &Object| finalizers.are_on_object(object);
            is_marked(object) || all.get(object.key()).is_some_and(|object| is_marked(&object))
        })
    }

    /// Queues the key of a changed object; `gone` is for one that was removed.
    fn queue(&self, change: &Change, seen: ChangeSource, gone: Gone) {
        let Some(key) = change.key() else { return };
        let kept = match (&change.old, &change.new) {
            (Some(old), None) => self.keep_removed(key, old, gone),
            // Another object was created with its name meanwhile.
            (Some(old), Some(new)) if new.uid() != old.uid() => self.keep_removed(key, old, Gone::Unknown),
            _ => false,
        };
        let ends = !self.while_deleting && begins_to_terminate(change);
        if ends {
            // The handler is not called for it again.
            self.enqueuer.observer.each(|one| one.ignored(key));
        }
        self.enqueuer.observe_deletion(change);
        let (mut asks, mut pauses) = (false, false);
        if let (Some(old), Some(new)) = (&change.old, &change.new) {
            (asks, pauses) = self.enqueuer.controller.annotations.compare(old, new);
            if pauses && seen == ChangeSource::Watched && self.daemons.is_none() && self.enqueuer.is_open_to(new.key())
            {
                self.enqueuer.observer.each(|one| one.paused(new));
            }
        }
        // A change of a daemon's own object restarts it, too: it is no echo.
        let (mut classified, mut switches) = (seen, false);
        if let Some(daemons) = &self.daemons {
            let both = change.old.as_ref().zip(change.new.as_ref());
            switches = both.is_some_and(|(old, new)| (self.wants)(old) != (self.wants)(new));
            let counts = |(old, new): (&Arc<Object>, &Arc<Object>)| self.counts(old, new);
            if asks || pauses || switches || both.is_none_or(counts) {
                daemons.cancel(key);
            }
            classified = ChangeSource::Listed;
        }
        // Later changes of a paused object queue nothing.
        let reports = self.begins_to_be_paused(change);
        let (lane, reason) = match (&change.old, &change.new) {
            (_, None) => (Lane::Event, Reason::Deleted),
            (Some(_), Some(new)) if reports || (asks || pauses || switches) && (self.wants)(new) => {
                (Lane::Event, Reason::Modified)
            }
            // Any change may correct an object that could not be decoded.
            (Some(old), Some(new))
                if !switches
                    && !self.counts(old, new)
                    && !self.undecodable.contains(key)
                    && !self.begins_to_match(old, new) =>
            {
                return;
            }
            // One that begins to terminate is queued once, so that a worker ends what was planned for it.
            (_, Some(new)) if !ends && !reports && !(self.wants)(new) => {
                self.enqueuer.observer.each(|one| one.ignored(key));
                self.enqueuer.schedule_resync(key);
                if !kept {
                    return;
                }
                // `deleted` is called for the old object; the filter is called again for the new one.
                (Lane::Event, Reason::Deleted)
            }
            (None, Some(_)) if seen == ChangeSource::First => (Lane::Background, Reason::Initial),
            (None, Some(_)) => (Lane::Event, Reason::Added),
            (Some(_), Some(_)) => (Lane::Event, Reason::Modified),
        };
        // The back-off of a failing object is over when it is paused.
        let urgency = |change: &Change| if asks || reports { Urgency::Now } else { urgency(change) };
        // A requested call and a deletion are not delayed: someone waits for them.
        let is_awaited = asks || pauses || kept || change.new.as_ref().is_some_and(|new| new.is_terminating());
        let debounced = reason.is_change() && !is_awaited;
        // `deleted` may be called although another object of the name waits.
        let own = (key, change.new.as_deref().filter(|_| !kept));
        self.enqueuer.add(own, (lane, debounced), reason, CacheRef::Primary, (change, classified), urgency);
    }
}

impl Sink for EventHandler {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        self.queue(change, seen, if seen == ChangeSource::Watched { Gone::Deleted } else { Gone::Unknown });
    }

    fn left(&self, object: &Arc<Object>) {
        let key = object.key();
        let namespaces = self.namespaces.as_ref();
        if namespaces.is_some_and(|namespaces| namespaces.may_be_deleted(key.namespace())) {
            // Its own deletion is not in the watch any more. Whether it exists is asked before `deleted` is called.
            return self.queue(&Change::new(Some(object.clone()), None), ChangeSource::Listed, Gone::Deleted);
        }
        if let Some(daemons) = &self.daemons {
            daemons.cancel(key);
        }
        // Another object of its name may have been deleted, in a shard that stays.
        if let Some(tombstones) = &self.tombstones {
            tombstones.forget(key, object.uid());
        }
        self.enqueuer.left(key);
        if let Some(namespace) = key.namespace().filter(|_| namespaces.is_some() && self.is_held(object)) {
            // It is cleaned up, or reported.
            let reason = Reason::Related("Namespace".into(), ObjectKey::cluster_scoped(namespace));
            self.enqueuer.wake(key, Lane::Background, reason, Urgency::Soon);
        }
    }
}

/// Returns `true` if an object is being deleted, and was not before.
fn begins_to_terminate(change: &Change) -> bool {
    let before = change.old.as_ref().is_some_and(|old| old.is_terminating());
    change.new.as_ref().is_some_and(|new| new.is_terminating()) && !before
}

/// The urgency of a change for the object's own key.
fn urgency(change: &Change) -> Urgency {
    match (&change.old, &change.new) {
        (_, None) => Urgency::Always,
        (Some(old), Some(new)) if !differs(old, new, &[Changed::Generation]) => Urgency::Soon,
        (Some(old), Some(new)) if old.uid() == new.uid() && begins_to_terminate(change) => Urgency::Always,
        (_, Some(_)) => Urgency::Now,
    }
}

/// Changes of children and of other related objects.
pub(super) struct RelatedHandler {
    pub(super) enqueuer: Arc<Enqueuer>,
    /// The cache of the related kind.
    pub(super) id: CacheId,
    pub(super) kind: KindInfo,
    /// Its name, for reasons.
    pub(super) name: Arc<str>,
    /// Only the keys of these objects are queued.
    pub(super) handled: HandledObjects,
    pub(super) keys: Keys,
}

/// The mapping of a related object to keys.
pub(super) enum Keys {
    /// To the owner that controls it, of this kind.
    Owner(KindInfo),
    /// By a function of the user, or an index.
    Map(MapKeys),
}

impl RelatedHandler {
    /// The keys that the old and the new object are mapped to.
    fn keys(&self, change: &Change) -> Vec<ObjectKey> {
        match &self.keys {
            Keys::Map(map) => {
                let objects = change.old.iter().chain(&change.new);
                objects.flat_map(|object| map(object).unwrap_or_else(|error| self.unmapped(&error))).collect()
            }
            Keys::Owner(kind) => {
                let Some(namespace) = change.key().map(|key| key.namespace().filter(|_| kind.namespaced)) else {
                    return Vec::new();
                };
                let key = |metadata: &Metadata| {
                    let owner = metadata.controller_of_kind(kind);
                    owner.map(|owner| ObjectKey::new(namespace, &owner.name)).into_iter().collect()
                };
                let versions = change.old_metadata().into_iter().chain(change.new_metadata());
                versions.flat_map(|one| one.map_or_else(|error| self.unmapped(error), key)).collect()
            }
        }
    }

    fn unmapped(&self, error: &DecodeError) -> Vec<ObjectKey> {
        tracing::error!(controller = %self.enqueuer.controller.controller, "{error}; no key is queued for it");
        self.enqueuer.count(Counter::DecodeError);
        Vec::new()
    }
}

impl Sink for RelatedHandler {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        // The keys of the old version are queued, too: the new one may no longer
        // refer to them.
        let mut keys = self.keys(change);
        if let Keys::Owner(_) = self.keys {
            keys.extend(self.enqueuer.controller.child_observer.child_changed(&self.kind, change));
        }
        keys.sort_unstable();
        keys.dedup();
        let lane = if seen == ChangeSource::First { Lane::Background } else { Lane::Event };
        let Some(object) = change.key() else { return };
        for key in keys {
            let Some(own) = self.handled.get(&key) else { continue };
            let reason = Reason::Related(self.name.clone(), object.clone());
            // Its deletion may wait for this change.
            let debounced = seen != ChangeSource::First && !own.is_terminating();
            let urgency = |_: &Change| Urgency::Soon;
            let own = (&key, Some(&*own));
            self.enqueuer.add(own, (lane, debounced), reason, CacheRef::Other(self.id), (change, seen), urgency);
        }
    }
}

/// Changes of all objects of the kind, selected or not: the key of one that waits
/// to be cleaned up outside of the selector, or no longer waits, is queued.
pub(super) struct UnselectedHandler {
    pub(super) enqueuer: Arc<Enqueuer>,
    /// The cache of all objects of the kind.
    pub(super) id: CacheId,
    pub(super) ours: Cache,
    pub(super) finalizers: Finalizers,
}

impl Sink for UnselectedHandler {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        let Some(key) = change.key() else { return };
        self.enqueuer.observe_deletion(change);
        // One that no longer concerns the controller may have failed before, which is forgotten.
        let concerned = [&change.old, &change.new].into_iter().flatten().any(|object| self.finalizers.concern(object));
        if concerned && self.ours.get(key).is_none() {
            let (lane, reason) = match (&change.new, seen) {
                (None, _) => (Lane::Event, Reason::Deleted),
                (Some(_), ChangeSource::First) => (Lane::Background, Reason::Initial),
                (Some(_), _) => (Lane::Event, Reason::Modified),
            };
            self.enqueuer.add((key, None), (lane, false), reason, CacheRef::Other(self.id), (change, seen), urgency);
        }
    }

    fn left(&self, object: &Arc<Object>) {
        self.enqueuer.left(object.key());
    }
}

/// Queues all keys once the cluster serves a kind that the controller can do without.
pub(super) struct OptionalKindHandler {
    pub(super) enqueuer: Arc<Enqueuer>,
    pub(super) handled: HandledObjects,
}

impl Sink for OptionalKindHandler {
    fn changed(&self, _: &Change, _: ChangeSource) {}

    fn signal(&self, signal: Signal<'_>) {
        let Signal::Served = signal else { return };
        let (enqueuer, handled) = (self.enqueuer.clone(), self.handled.clone());
        let wake = move |key: &ObjectKey| enqueuer.wake(key, Lane::Background, Reason::KindServed, Urgency::Soon);
        tokio::spawn(async move { handled.each(|_| true, wake).await }.boxed());
    }
}

/// Notifies the queue that an event was delivered, after all other sinks of the
/// controller have received it, and counts errors.
pub(super) struct Progress {
    /// The controller's caches that have the store of the watch.
    pub(super) caches: Vec<CacheRef>,
    pub(super) enqueuer: Arc<Enqueuer>,
}

impl Sink for Progress {
    fn changed(&self, change: &Change, _: ChangeSource) {
        if let Some(object) = change.last() {
            for cache in &self.caches {
                self.enqueuer.queue().event_delivered(|| Revision::event(*cache, object, change.new.is_none()));
            }
        }
    }

    fn left(&self, object: &Arc<Object>) {
        // No write of it is going to be shown.
        for cache in &self.caches {
            self.enqueuer.queue().event_delivered(|| Revision::event(*cache, object, true));
        }
    }

    fn is_last(&self) -> bool {
        true
    }

    fn signal(&self, signal: Signal<'_>) {
        self.enqueuer.count(match signal {
            Signal::Relisted => Counter::Relist,
            Signal::Restored => Counter::Restore,
            Signal::Malformed => Counter::DecodeError,
            Signal::Failed(error) => Counter::WatchError(error.fault()),
            Signal::Served => return,
        });
    }
}

#[cfg(test)]
mod tests;
