//! Working on a part of the objects, which this replica holds for a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Runner, Starting};
use crate::controller::partition::Partition;
use crate::leader::shard::Shard;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Lane, Urgency};

/// For this time after the stop, keys are handled until another replica does it.
const LEAVE: Duration = Duration::from_secs(5);

/// Maximum time for the release when no call runs any more.
const RELEASE: Duration = Duration::from_millis(2500);

impl Runner {
    /// Holds the part, works on it, and releases it.
    pub(super) async fn run_part(&self, partition: &dyn Partition, starting: &Starting, shutdown: &CancellationToken) {
        let _waking = self.wake_granted().map(|waking| AbortOnDropHandle::new(tokio::spawn(waking)));
        let mut holding = AbortOnDropHandle::new(tokio::spawn(partition.hold(shutdown.clone())));
        // Nothing that `init` sends would pass before.
        if shutdown.run_until_cancelled(self.leadership.held()).await.is_some() {
            let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
            let leaving = async {
                shutdown.cancelled().await;
                let left = timeout(LEAVE, &mut holding).await.is_ok();
                stop.cancel();
                left
            };
            let (left, ended) = tokio::join!(leaving, self.run_term(starting, &stop, &lost));
            // A call that still runs might write, so the part is not released but expires.
            if left || !ended {
                return;
            }
        }
        drop(timeout(RELEASE, holding).await);
    }

    /// Queues all keys of a shard that was gained, because its last owner may have planned calls of
    /// them, and the keys that were refused whenever objects may have been granted.
    fn wake_granted(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut changes = self.grants.admission.shards()?;
        let (enqueuer, grants, own) = (self.enqueuer.clone(), self.grants.clone(), self.watching.primary());
        let tombstones = self.tombstones.clone();
        Some(async move {
            let mut known = BTreeSet::new();
            while changes.changed().await.is_ok() {
                let held = changes.borrow_and_update().clone();
                let is_new = |shard: &&Shard| !known.iter().any(|known| is_part(shard, known));
                let gained: BTreeSet<Shard> = held.iter().filter(is_new).copied().collect();
                let mut keys = Vec::new();
                for part in (!gained.is_empty()).then(|| own.parts()).into_iter().flatten() {
                    let is_gained = |object: &&Arc<Object>| grants.admission.is_in(object, &gained);
                    keys.extend(part.iter().filter(is_gained).map(|object| object.key().clone()));
                    yield_now().await;
                }
                // Queued only now: before, workers would refuse them.
                let waiting = grants.handle(held.clone(), &keys);
                // One that still waits is noted again. `deleted` may be called although another object of the name waits.
                let is_granted = |key: &ObjectKey| {
                    let is_granted =
                        |object: Arc<Object>| !grants.waits(key, &object) && grants.granted(key, &object).is_ok();
                    tombstones.contains(key) || own.get(key).is_none_or(is_granted)
                };
                for key in keys.into_iter().chain(waiting.into_iter().filter(is_granted)) {
                    enqueuer.wake(&key, Lane::Background, Reason::Shard, Urgency::Idle);
                    consume_budget().await;
                }
                known = held;
            }
        })
    }
}

/// Returns `true` if a shard is another one, or a part of it after a split, in the same term.
fn is_part(shard: &Shard, of: &Shard) -> bool {
    let parts = shard.count.checked_div(of.count).unwrap_or_default();
    shard.term == of.term && shard.index.checked_div(parts) == Some(of.index)
}
