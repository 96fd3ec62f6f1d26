//! When a cluster is at rest.

use std::time::Duration;

use kooper_apiserver::StoredObject;
use tokio::time::{Instant, sleep};

use super::Cluster;

/// The time between two looks at the cluster.
const LOOK: Duration = Duration::from_secs(5);

/// Time without changes after which a cluster counts as at rest: longer than the default resync
/// interval.
const QUIET: Duration = Duration::from_secs(200);

/// Maximum time until a cluster is at rest.
const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// Objects that changed until the end.
#[derive(Debug)]
pub(crate) struct Unsettled(pub(crate) Vec<String>);

/// Returns whether the objects of a resource are Leases or Events, which change even while a
/// cluster is at rest.
pub(crate) fn is_noise(group: &str, resource: &str) -> bool {
    matches!((group, resource), ("coordination.k8s.io", "leases") | ("" | "events.k8s.io", "events"))
}

/// Returns whether the clock is paused: it stands still while the thread sleeps.
pub(crate) fn is_paused() -> bool {
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    Instant::now() == before
}

impl Cluster {
    /// Waits until the cluster is at rest, that is, until no object has changed for
    /// 200 seconds, Leases and Events aside. It is for a clock that is
    /// paused, on which this takes milliseconds, and separates the
    /// steps of a test:
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kooper::prelude::*;
    /// # use kooper::testing::Cluster;
    /// # #[kooper::controller(resource = ConfigMap, main = false)]
    /// # async fn shops(_: Arc<ConfigMap>) {}
    /// #[kooper::test(shops, start_paused = true)]
    /// async fn a_shop_grows(cluster: Cluster) -> Result<()> {
    ///     let mut shop = ConfigMap::default();
    ///     shop.metadata.name = Some("shop".into());
    ///     let shop = cluster.create(&shop).await?;
    ///     cluster.settle().await;
    ///     cluster.patch(&shop, serde_json::json!({"data": {"size": "2"}})).await?;
    ///     cluster.settle().await;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Panics
    /// When objects still change after 12 hours, on a clock that is not paused, and on the real server, whose clock
    /// cannot be paused: a test of `kooper::test` is skipped there instead.
    #[track_caller]
    pub fn settle(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            assert!(self.server.objects().is_some(), "{caller}: the clock of the real server cannot be paused");
            assert!(
                is_paused(),
                "{caller}: `settle` needs a paused clock: write `#[kooper::test(start_paused = true)]`"
            );
            if let Err(Unsettled(objects)) = self.rest(&State::of, || ()).await {
                panic!("{caller}: after {LIMIT:?} there are still changes to {}", objects.join(", "));
            }
        }
    }

    /// Waits until the cluster is at rest, and reports whenever its state has changed.
    pub(crate) async fn rest(
        &self,
        state: &dyn Fn(&[StoredObject]) -> State,
        mut changed: impl FnMut(),
    ) -> Result<(), Unsettled> {
        let start = Instant::now();
        let mut seen = self.version();
        let (mut since, mut last) = (start, state(&self.objects()));
        loop {
            sleep(LOOK).await;
            let version = self.version();
            let objects = if version == seen { Vec::new() } else { self.objects() };
            let now = if version == seen { last } else { state(&objects) };
            seen = version;
            if now == last {
                if since.elapsed() >= QUIET {
                    return Ok(());
                }
            } else if start.elapsed() >= LIMIT {
                let changed = objects.iter().filter(|object| counts(object) && object.version() > last.newest);
                let names = changed.map(|object| format!("`{} {}`", object.resource(), object.key()));
                return Err(Unsettled(names.collect()));
            } else {
                (since, last) = (Instant::now(), now);
                changed();
            }
        }
    }
}

/// A summary of the cluster's state. A write changes the digest, and a deletion changes the number.
#[derive(Clone, Copy)]
pub(crate) struct State {
    number: usize,
    digest: u64,
    /// The last version.
    newest: u64,
}

impl State {
    /// Every write counts.
    pub(crate) fn of(objects: &[StoredObject]) -> Self {
        let newest = versions(objects).max().unwrap_or_default();
        Self { number: versions(objects).count(), digest: newest, newest }
    }

    /// Summarizes objects by a digest of each. Objects without a digest are ignored.
    pub(crate) fn digested(objects: &[StoredObject], digest: impl Fn(&StoredObject) -> Option<u64>) -> Self {
        let digests: Vec<_> = objects.iter().filter(|object| counts(object)).filter_map(digest).collect();
        let newest = versions(objects).max().unwrap_or_default();
        Self { number: digests.len(), digest: digests.into_iter().fold(0, u64::wrapping_add), newest }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (self.number, self.digest) == (other.number, other.digest)
    }
}

fn versions(objects: &[StoredObject]) -> impl Iterator<Item = u64> {
    objects.iter().filter(|object| counts(object)).map(StoredObject::version)
}

fn counts(object: &StoredObject) -> bool {
    !is_noise(object.group(), object.resource())
}
