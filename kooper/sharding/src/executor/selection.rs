//! The objects that caches keep: those of the selected shards, and their children.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kooper_base::metrics::Counter;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::object::{OWNER, is_of_kind};
use kooper_runtime::internal::watch::selection::{CacheSelection, SelectorState};
use kooper_runtime::object::Object;
use kooper_runtime::retriever::Scope;
use tokio::sync::watch;

use super::selector::shard_selector;
use super::{LastState, ListedCache, Selected, Sharding, ShardingOptions, Shared};
use crate::hash::{BUCKET, BUCKETS, Shard, ShardField, label};
use crate::member::Member;

/// The objects that a cache is for.
pub(super) enum SelectedObjects {
    /// The controller's own objects.
    Own,
    /// Their children. All that were `applied` have the label of their bucket, unless an older version did it.
    Children { owner: KindInfo, applied: bool },
}

/// Selects what one cache keeps.
pub(super) struct ShardSelection {
    shared: Arc<Shared>,
    options: Arc<ShardingOptions>,
    part: SelectedObjects,
    listed: Arc<ListedCache>,
    selector: LastState,
}

impl ShardSelection {
    pub(super) fn new(sharding: &Sharding, part: SelectedObjects) -> Self {
        let listed = Arc::<ListedCache>::default();
        sharding.shared.caches.lock().push(Arc::clone(&listed));
        let selector = LastState::default();
        if matches!(part, SelectedObjects::Own) {
            sharding.shared.selectors.lock().push(Arc::clone(&selector));
        }
        Self { shared: Arc::clone(&sharding.shared), options: Arc::clone(&sharding.options), part, listed, selector }
    }
}

impl CacheSelection for ShardSelection {
    fn selects(&self, object: &Object) -> bool {
        let selected = self.shared.selected.lock();
        let (count, shards) = &selected.shards;
        // Nor what belongs to no owner of this kind: nothing is called that could want it.
        if shards.is_empty() {
            return false;
        }
        // The metadata of each child need not be decoded.
        if shards.len() == usize::from(count.get()) {
            return true;
        }
        let by = selected.by;
        let SelectedObjects::Children { owner, .. } = &self.part else { return selected.has(bucket(by, object)) };
        drop(selected);
        // Who wants an object that belongs to no owner of this kind must learn of it.
        let Some(bucket) = owners_bucket(by, owner, object) else { return true };
        // Objects that were decided by another field are listed again.
        self.shared.selected.lock().has(bucket)
    }

    fn is_empty(&self) -> bool {
        self.shared.selected.lock().shards.1.is_empty()
    }

    fn dropped(&self) {
        if matches!(self.part, SelectedObjects::Own) {
            self.options.metrics.count(&self.options.controller, Counter::ShardObjectDropped);
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.joined.subscribe()
    }

    fn left(&self) -> Option<u64> {
        Some(self.shared.selected.lock().left)
    }

    fn listed(&self, joined: u64) {
        self.listed.all.store(joined, Ordering::Release);
        self.tried(joined);
    }

    fn tried(&self, joined: u64) {
        self.listed.tried.store(joined, Ordering::Release);
        self.shared.changed.notify_one();
    }

    fn narrow(&self, scope: &Scope, since: u64) -> Scope {
        let selected = self.shared.selected.lock();
        let buckets = (0..=u8::MAX).zip(&selected.buckets);
        let joined = buckets.filter(|(_, joined)| **joined > since).map(|(bucket, _)| bucket);
        match (&self.part, selected.by) {
            (SelectedObjects::Own, ShardField::Uid) => {
                let shard_selector = shard_selector(joined);
                if shard_selector.is_none() {
                    *self.selector.lock() = None;
                }
                Scope { shard_selector, ..scope.clone() }
            }
            (SelectedObjects::Own, ShardField::Namespace) => {
                *self.selector.lock() = None;
                scope.clone()
            }
            (SelectedObjects::Children { applied: true, .. }, ShardField::Uid) => {
                let excluded = excluding(&joined.collect());
                let labels = scope.labels.iter().chain(&excluded).map(String::as_str).collect::<Vec<_>>().join(",");
                Scope { labels: (!labels.is_empty()).then_some(labels), ..scope.clone() }
            }
            (SelectedObjects::Children { .. }, _) => scope.clone(),
        }
    }

    fn shard_selector(&self, state: SelectorState) {
        let before = self.selector.lock().replace(state);
        if before != Some(state) && state == SelectorState::Rejected {
            tracing::info!(
                controller = &*self.options.controller,
                "the API server rejects the shard selector: this replica receives the objects of all replicas"
            );
        }
    }
}

impl Selected {
    fn has(&self, bucket: u8) -> bool {
        self.buckets[usize::from(bucket)] > 0
    }
}

impl Shared {
    /// Selects the objects that caches keep: those of the shards that this replica owns, and of those
    /// that it is going to own. Without a map nothing changes.
    pub(super) fn select(&self, member: &Member) {
        let Some(map) = member.map() else { return };
        let mut chosen: Vec<Shard> = member.selected().collect();
        chosen.sort_unstable();
        chosen.dedup();
        let mut selected = self.selected.lock();
        let Selected { by, shards, buckets, left } = &mut *selected;
        if *by == map.by() && shards.0 == map.count() && shards.1 == chosen {
            return;
        }
        let all = || chosen.iter().flat_map(|shard| map.count().buckets(*shard)).map(usize::from);
        let mut next = [0; BUCKETS as usize];
        if *by == map.by() {
            all().for_each(|bucket| next[bucket] = buckets[bucket]);
        }
        *left += u64::from(next != *buckets);
        let has_joined = all().any(|bucket| next[bucket] == 0);
        let number = *self.joined.borrow() + u64::from(has_joined);
        for bucket in all() {
            if next[bucket] == 0 {
                next[bucket] = number;
            }
        }
        (*by, *shards, *buckets) = (map.by(), (map.count(), chosen), next);
        // Before it is unlocked: an object that is selected again is known to have joined.
        self.joined.send_replace(number);
    }
}

/// The bucket of an object of the controller.
pub(super) fn bucket(by: ShardField, object: &Object) -> u8 {
    by.bucket(match by {
        ShardField::Uid => object.uid(),
        ShardField::Namespace => object.key().namespace().unwrap_or_default(),
    })
}

/// The bucket of the owner of a child, if an object is one.
fn owners_bucket(by: ShardField, owner: &KindInfo, child: &Object) -> Option<u8> {
    let owners = child.owner_references().ok()?;
    match (owners.iter().find(|owner| owner.controller == Some(true)), by) {
        (Some(controller), _) if !is_of_kind(controller, owner) => None,
        (Some(controller), ShardField::Uid) => Some(by.bucket(&controller.uid)),
        (Some(_), ShardField::Namespace) => Some(by.bucket(child.key().namespace().unwrap_or_default())),
        // Only an object without a controller belongs to the owner that its label names.
        (None, ShardField::Uid) => child.metadata().ok()?.labels.get(OWNER).map(|uid| by.bucket(uid)),
        // A child without an owner reference may be in another namespace.
        (None, ShardField::Namespace) => None,
    }
}

/// A label selector without the children of other buckets. It selects what has no label, so that no
/// child of an older version is missed.
fn excluding(selected: &BTreeSet<u8>) -> Option<String> {
    if selected.is_empty() {
        return Some(format!("!{BUCKET}"));
    }
    let others: Vec<String> = (0..=u8::MAX).filter(|bucket| !selected.contains(bucket)).map(label).collect();
    (!others.is_empty()).then(|| format!("{BUCKET} notin ({})", others.join(",")))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(metadata: &str) -> Object {
        Object::parse(format!(r#"{{"metadata":{{"name":"a","namespace":"n",{metadata}}}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn a_child_is_in_the_bucket_of_the_owner_that_controls_it() {
        let owner = |kind: &str, controls: bool| {
            let owner =
                format!(r#"{{"apiVersion":"v1","kind":"{kind}","name":"o","uid":"u","controller":{controls}}}"#);
            object(&format!(r#""ownerReferences":[{owner}],"labels":{{"kooper.rs/owner":"w"}}"#))
        };
        let bucket = |by, child| owners_bucket(by, &KindInfo::of::<ConfigMap>(), &child);
        assert_eq!(bucket(ShardField::Uid, owner("ConfigMap", true)), Some(ShardField::Uid.bucket("u")));
        assert_eq!(bucket(ShardField::Namespace, owner("ConfigMap", true)), Some(ShardField::Namespace.bucket("n")));
        assert_eq!(bucket(ShardField::Uid, owner("ConfigMap", false)), Some(ShardField::Uid.bucket("w")));
        assert_eq!(bucket(ShardField::Namespace, owner("ConfigMap", false)), None);
        assert_eq!(bucket(ShardField::Uid, owner("Secret", true)), None);
        assert_eq!(bucket(ShardField::Uid, object(r#""uid":"x""#)), None);
    }

    #[test]
    fn only_the_buckets_of_others_are_left_out() {
        assert_eq!(excluding(&BTreeSet::new()).unwrap(), "!kooper.rs/bucket");
        assert_eq!(excluding(&(1..=253).collect()).unwrap(), "kooper.rs/bucket notin (00,fe,ff)");
        assert_eq!(excluding(&(0..=255).collect()), None);
    }
}
