//! Limits how often children are created, so that one that is deleted again and
//! again is not recreated without a pause.

use std::collections::HashMap;
use std::time::Duration;

use kooper_runtime::ObjectKey;
use kooper_runtime::internal::backoff::TokenBucket;
use kooper_runtime::internal::object::kind::KindInfo;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::hash;

/// Number of times that a child is created without a pause.
const BURST: u32 = 5;

/// The pause between two creations after that.
const PAUSE: Duration = Duration::from_secs(10);

/// The children that were created lately.
#[derive(Debug, Default)]
pub(in crate::capability) struct Creations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The children of each owner, by their hashes: an operator that starts creates all children at once, and their names
    /// would take more memory than its caches. Two of one hash would pause together.
    owners: HashMap<ObjectKey, HashMap<u64, TokenBucket>>,
    /// When those that are not limited any more are next forgotten.
    sweep_at: Option<Instant>,
}

impl Creations {
    /// The time until a child may be created again, if it was created too often.
    pub(in crate::capability) fn pause(
        &self,
        owner: &ObjectKey,
        kind: &KindInfo,
        child: &ObjectKey,
        now: Instant,
    ) -> Option<Duration> {
        let state = self.0.lock();
        let next = state.owners.get(owner)?.get(&hash((kind, child)))?.next(now);
        (next > now).then(|| next - now)
    }

    /// Notes that a child was created.
    pub(in crate::capability) fn note(&self, owner: &ObjectKey, kind: &KindInfo, child: &ObjectKey, now: Instant) {
        let mut state = self.0.lock();
        // Forget children that are no longer limited. A bucket is full again after
        // this interval.
        if state.sweep_at.is_none_or(|at| at <= now) {
            state.owners.retain(|_, children| {
                children.retain(|_, bucket| !bucket.is_full(now));
                !children.is_empty()
            });
            state.sweep_at = Some(now + PAUSE * BURST);
        }
        let new = || TokenBucket::every(PAUSE, BURST, now);
        let bucket = state.owners.entry(owner.clone()).or_default().entry(hash((kind, child))).or_insert_with(new);
        // Two calls may create it at the same time; both are counted.
        let _ = bucket.take(now);
    }

    /// Forgets all children.
    pub(super) fn clear(&self) {
        *self.0.lock() = State::default();
    }

    /// Forgets the children of an owner that was deleted, as far as the caches know.
    pub(in crate::capability) fn forget(&self, owner: &ObjectKey) {
        self.0.lock().owners.remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_child_that_is_created_again_and_again_is_created_with_pauses() {
        let (creations, kind) = (Creations::default(), KindInfo::of::<Secret>());
        let owner = ObjectKey::namespaced("default", "owner");
        let [a, b] = ["a", "b"].map(|name| ObjectKey::namespaced("default", name));
        for _ in 0..BURST {
            assert_eq!(creations.pause(&owner, &kind, &a, Instant::now()), None);
            creations.note(&owner, &kind, &a, Instant::now());
        }
        assert_eq!(creations.pause(&owner, &kind, &a, Instant::now()), Some(PAUSE));
        assert_eq!(creations.pause(&owner, &kind, &b, Instant::now()), None);
        tokio::time::sleep(PAUSE).await;
        assert_eq!(creations.pause(&owner, &kind, &a, Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_stays_is_forgotten() {
        let (creations, kind) = (Creations::default(), KindInfo::of::<Secret>());
        let owner = ObjectKey::namespaced("default", "owner");
        for number in 0..1000 {
            creations.note(&owner, &kind, &ObjectKey::cluster_scoped(&number.to_string()), Instant::now());
        }
        tokio::time::sleep(PAUSE * BURST).await;
        creations.note(&owner, &kind, &ObjectKey::cluster_scoped("last"), Instant::now());
        assert_eq!(creations.0.lock().owners[&owner].len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_of_an_owner_end_with_it() {
        let (creations, kind) = (Creations::default(), KindInfo::of::<Secret>());
        let [a, b, child] = ["a", "b", "child"].map(ObjectKey::cluster_scoped);
        for owner in [&a, &b] {
            creations.note(owner, &kind, &child, Instant::now());
        }
        creations.forget(&a);
        let left: Vec<_> = creations.0.lock().owners.keys().cloned().collect();
        assert_eq!(left, [b]);
    }
}
