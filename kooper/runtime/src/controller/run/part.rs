//! Working on a part of the objects, which this replica holds for a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Runner, Starting};
use crate::controller::partition::Partition;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Grant, Lane, Urgency};

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

    /// Queues the keys that were refused whenever objects may have been granted, and all keys of a
    /// shard that was gained: its last owner may have planned calls of them.
    fn wake_granted(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut shards = self.admission.shards()?;
        let (enqueuer, refused) = (Arc::clone(&self.enqueuer), Arc::clone(&self.refused));
        let (admission, own) = (Arc::clone(&self.admission), self.watching.primary());
        let wake = move |key: &ObjectKey| enqueuer.wake(key, Lane::Background, Reason::Shard, Urgency::Idle);
        Some(async move {
            let mut known = BTreeSet::new();
            while shards.changed().await.is_ok() {
                let held = shards.borrow_and_update().clone();
                let keys = std::mem::take(&mut *refused.lock());
                keys.iter().for_each(&wake);
                let gained = held.difference(&known).copied().collect::<BTreeSet<_>>();
                known = held;
                for part in own.parts().filter(|_| !gained.is_empty()) {
                    let is_gained = |object: &&Arc<Object>| match admission.grants(object) {
                        Grant::Shard(term, _) => gained.contains(&term.shard()),
                        _ => false,
                    };
                    part.iter().filter(is_gained).for_each(|object| wake(object.key()));
                    yield_now().await;
                }
            }
        })
    }
}
