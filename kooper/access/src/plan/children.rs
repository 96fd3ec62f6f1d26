//! The caches of children, and of other objects whose changes queue owners.

use kooper_runtime::Kind;
use kooper_runtime::internal::controller::parts::MakeIndex;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::{CacheRequest, CacheUse};

use super::Plan;
use crate::subset::All;

/// The children of a controller, and the other objects whose changes queue owners.
#[derive(Debug, Clone, Default)]
pub(super) struct ChildrenPlan {
    /// The caches of children.
    pub(super) owned: Vec<CacheRequest>,
    /// The caches of readers whose changes queue the keys of an index.
    pub(super) indexed: Vec<(CacheRequest, MakeIndex)>,
    /// The kinds of children that handlers apply, and which argument does.
    applied: Vec<(CacheRequest, String)>,
    /// The first slot whose children outlive their owner.
    kept: Option<String>,
    /// The first kind of previous children that Kubernetes does not delete with their owner.
    apart: Option<String>,
    /// `true` if these are released from their owner.
    releases: bool,
}

impl Plan {
    /// Watches children: each change of one queues its owner.
    pub(crate) fn watch_children<K: Kind>(&mut self, objects: All<K>) {
        let because = format!("owns = [{}]", objects.describe());
        let request = self.reading_children(|plan| plan.require_cache("owns", objects, because));
        self.own(request);
    }

    fn own(&mut self, request: CacheRequest) {
        if !self.children.owned.iter().any(|known| known.id == request.id) {
            self.children.owned.push(request);
        }
    }

    /// Queues the keys that an index has for an object of this kind, at each change of it. The objects are those of
    /// `Reader<K>`; one index of them is enough.
    #[doc(hidden)]
    pub fn queue_indexed<K: Kind>(&mut self, index: MakeIndex) {
        let request = CacheRequest::of::<K>();
        if !self.children.indexed.iter().any(|(known, _)| known.id == request.id) {
            self.children.indexed.push((request, index));
        }
    }

    /// Notes that a handler applies children of a kind. All of them are watched if
    /// `owns` does not have the kind.
    pub(crate) fn apply_children<K: Kind>(&mut self, because: String) {
        let request = CacheRequest::of::<K>().optional(self.optional).using(CacheUse::AppliedChildren);
        self.children.applied.push((request, because));
    }

    /// Notes a slot whose children are kept when their owner is deleted.
    #[doc(hidden)]
    pub fn keep_children(&mut self, slot: &str) {
        self.children.kept.get_or_insert_with(|| slot.to_owned());
    }

    /// Notes that children which are kept are released from their owner before it is deleted.
    #[doc(hidden)]
    pub fn release_children(&mut self) {
        self.children.releases = true;
    }

    /// Watches the children of a kind that earlier versions of the program have applied, and that this one deletes or
    /// keeps, which an Event reports.
    #[doc(hidden)]
    pub fn watch_previous_children<P: Kind, K: Kind>(&mut self) {
        if KindInfo::of::<P>().namespaced && !KindInfo::of::<K>().namespaced {
            self.children.apart.get_or_insert_with(|| K::kind(&()).into_owned());
        }
        let because = format!("previous_children = [{}]", K::kind(&()));
        let request = CacheRequest::of::<K>().optional(self.optional).using(CacheUse::AppliedChildren);
        self.require_watch(&request, &because);
        self.own(request);
        self.record_events("previous_children");
    }

    /// Watches the children that handlers apply.
    pub(super) fn settle_children(&mut self) {
        if let Some(slot) = self.children.kept.take().filter(|_| !self.children.releases) {
            let problem = format!(
                "Kubernetes deletes a child with its owner: to `keep` the children of the slot `{slot}`, write \
                 `.cleanup(finalizer, children.deletion(cleanup))`, so that they are released first"
            );
            self.note_mistake("cleanup", &problem);
        }
        if let Some(kind) = self.children.apart.take().filter(|_| !self.children.releases) {
            let problem = format!(
                "a {kind} is cluster-scoped, and its owner is in a namespace: to prune previous children of this kind, \
                 write `.cleanup(finalizer, children.deletion(cleanup))`, because only an ordered deletion knows them"
            );
            self.note_mistake("cleanup", &problem);
        }
        for (request, because) in std::mem::take(&mut self.children.applied) {
            let of_kind = self.children.owned.iter().filter(|owned| owned.kind.is_same(&request.kind));
            let selections: Vec<_> = of_kind.map(|owned| (owned.hides(), owned.id.selected)).collect();
            let watched = self.caches.iter_mut().filter(|(one, _)| one.kind.is_same(&request.kind));
            watched.filter(|(one, _)| one.used == CacheUse::Children).for_each(|(one, _)| one.used = request.used);
            if selections.is_empty() {
                self.require_watch(&request, &because);
                if self.has_shards {
                    self.require_selected(&request.kind, None, &["get"], &because);
                }
                self.whole.push(because);
                self.own(request);
            } else if self.has_shards || selections.iter().all(|(hides, _)| *hides) {
                // A child that left the selection, or has another owner, is found by its name.
                for (_, selected) in selections {
                    self.require_selected(&request.kind, selected, &["get"], &because);
                }
            }
        }
    }

    /// Settles which objects of each cache are used: all, if anything uses all, or others than the rest does.
    pub(super) fn settle_used(&mut self) {
        let settled: Vec<_> = self.caches.iter().map(|(request, _)| (request.id, request.used)).collect();
        for (request, _) in &mut self.caches {
            let of_cache = || settled.iter().filter(|(id, _)| *id == request.id).map(|(_, used)| *used);
            let are = |one: CacheUse| of_cache().all(|used| used == one);
            request.used = match request.used {
                used if are(used) => used,
                _ if of_cache().any(|used| matches!(used, CacheUse::All | CacheUse::Own)) => CacheUse::All,
                _ => CacheUse::AppliedChildren,
            };
        }
    }

    /// Adds readers that read only the children of the controller's objects.
    #[doc(hidden)]
    pub fn reading_children<R>(&mut self, add: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.used, CacheUse::Children);
        let added = add(self);
        self.used = before;
        added
    }

    pub(crate) fn indexed(&self) -> &[(CacheRequest, MakeIndex)] {
        &self.children.indexed
    }

    /// The caches of children.
    pub(crate) fn owned(&self) -> &[CacheRequest] {
        &self.children.owned
    }
}
