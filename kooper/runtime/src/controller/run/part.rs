//! Working on a part of the objects, which this replica holds for a time.

use std::collections::BTreeSet;
use std::panic;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinError;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Runner;
use crate::call::worker::is_in_one_of;
use crate::controller::partition::Partition;
use crate::leader::shard::Shard;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Lane, Urgency};

/// For this time after the stop, keys are handled until another replica does it.
const LEAVE: Duration = Duration::from_secs(5);

/// Maximum time for the release when no call of any controller in the part runs any more.
const RELEASE: Duration = Duration::from_millis(2500);

impl Runner {
    /// Holds the part, works on it, and releases it.
    pub(super) async fn run_part(&self, partition: &dyn Partition, shutdown: &CancellationToken) {
        // Without a part it is ready, too: a roll-out waits for it while other replicas hold all parts.
        self.starting.over();
        let _waking = self.wake_granted().map(|waking| AbortOnDropHandle::new(tokio::spawn(waking.boxed())));
        let (hold, leave) = (partition.hold(shutdown.clone()), shutdown.clone());
        // Before the stop, it ends only if it panics.
        let holding = async move {
            hold.await;
            leave.cancelled().await;
        };
        let mut holding = AbortOnDropHandle::new(tokio::spawn(holding.boxed()));
        // Nothing that `init` sends would pass before.
        let held = tokio::select! {
            held = shutdown.run_until_cancelled(self.leadership.held()) => held.is_some(),
            ended = &mut holding => return resume_panic(ended),
        };
        if held {
            let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
            let leaving = async {
                let left = tokio::select! {
                    () = shutdown.cancelled() => timeout(LEAVE, &mut holding).await.is_ok(),
                    // It is unknown whether calls may begin, so the controller ends with this panic.
                    ended = &mut holding => {
                        stop.cancel();
                        resume_panic(ended);
                        true
                    }
                };
                stop.cancel();
                left
            };
            let (left, ended) = tokio::join!(leaving, self.run_term(&stop, &lost));
            // A call that still runs might write, so the part is not released but expires.
            if left || !ended {
                return;
            }
        }
        // It ends by itself when nothing runs.
        let others = if partition.is_in_use() { self.process.drain } else { Duration::ZERO };
        drop(timeout(RELEASE.saturating_add(others), holding).await);
    }

    /// Queues all keys of a shard that was gained, because its last owner may have planned calls of
    /// them, and the keys that were refused whenever objects may have been granted.
    fn wake_granted(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut changes = self.grants.admission.shards()?;
        let (enqueuer, grants, tombstones) = (self.enqueuer.clone(), self.grants.clone(), self.tombstones.clone());
        let handled = self.watching.handled(&self.controller.config);
        // A part that another controller holds may have been gained before the caches were complete.
        changes.mark_changed();
        Some(async move {
            let mut known = BTreeSet::new();
            while changes.changed().await.is_ok() {
                let held = changes.borrow_and_update().clone();
                let is_new = |shard: &&Shard| !known.iter().any(|known| is_part(shard, known));
                let gained: BTreeSet<Shard> = held.iter().filter(is_new).copied().collect();
                let wake = |key: &ObjectKey| enqueuer.wake(key, Lane::Background, Reason::Shard, Urgency::Idle);
                let is_gained = |object: &Object| is_in_one_of(&gained, &*grants.admission, object);
                // First: otherwise workers would refuse the keys, and a change of an object that was passed would be lost.
                let waiting = grants.handle(held.clone());
                if !gained.is_empty() {
                    handled.each(is_gained, wake).await;
                }
                // One that is refused again is noted again. `deleted` may be called although another object of the name waits.
                let is_granted =
                    |object: Arc<Object>| !is_gained(&object) && grants.granted(object.key(), &object, false).is_ok();
                for key in waiting {
                    if tombstones.contains(&key) || handled.primary.get(&key).is_none_or(is_granted) {
                        wake(&key);
                    }
                    consume_budget().await;
                }
                known = held;
            }
        })
    }
}

/// Passes on the panic of a task that has ended, if it panicked.
fn resume_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        panic::resume_unwind(panic);
    }
}

/// Returns `true` if a shard is another one, or a part of it after a split, in the same term.
fn is_part(shard: &Shard, of: &Shard) -> bool {
    let parts = shard.count.checked_div(of.count).unwrap_or_default();
    shard.term == of.term && shard.index.checked_div(parts) == Some(of.index)
}
