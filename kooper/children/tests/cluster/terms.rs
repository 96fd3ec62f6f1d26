//! A replica that leads again.

use std::future::ready;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_access::extract::Context;
use kooper_access::handler::Handler;
use kooper_access::internal::Additions;
use kooper_access::plan::Plan;
use kooper_runtime::internal::call::observer::CallObserver;
use parking_lot::Mutex;
use serde_json::{from_value, json};
use tokio::time::sleep;

/// Notes at the beginning of each term which of some objects exist.
struct Terms {
    keys: Vec<ObjectKey>,
    noted: Mutex<Vec<Vec<bool>>>,
}

impl CallObserver for Terms {
    fn term_begins(&self, exists: &dyn Fn(&ObjectKey) -> bool) {
        self.noted.lock().push(self.keys.iter().map(exists).collect());
    }
}

/// A handler that brings the observer.
struct Observed(Arc<Terms>);

impl Handler<ConfigMap, (), ()> for Observed {
    fn plan(_: &mut Plan) {}

    fn extend(&self, additions: &mut Additions) {
        additions.observers.push(self.0.clone());
    }

    fn handle(&self, _: Context<ConfigMap, ()>) -> BoxFuture<'static, Result<Action>> {
        ready(Ok(Action::done())).boxed()
    }
}

#[kooper::test(start_paused = true)]
async fn what_is_remembered_of_a_term_can_be_compared_with_the_objects_that_exist_in_the_next_one(
    cluster: Cluster,
) -> Result<()> {
    let mut objects = Vec::new();
    for name in ["a", "b"] {
        objects.push(cluster.create(&from_value::<ConfigMap>(json!({"metadata": {"name": name}}))?).await?);
    }
    let key = |object: &ConfigMap| ObjectKey::new(object.namespace().as_deref(), &object.name_any());
    let terms = Arc::new(Terms { keys: objects.iter().map(key).collect(), noted: Mutex::default() });
    let noted = ConfigMap::controller("noted").leader_election(LeaderElection::new()).handler(Observed(terms.clone()));
    let running = cluster.run([noted.build()?]).await?;
    while terms.noted.lock().is_empty() {
        sleep(Duration::from_secs(1)).await;
    }
    // Another replica leads, and ends soon after it without a release.
    for lease in cluster.list::<Lease>().await?.iter().filter(|lease| lease.name_any() == "test-noted") {
        cluster.patch(lease, json!({"spec": {"holderIdentity": "another"}})).await?;
    }
    sleep(Duration::from_secs(5)).await;
    cluster.delete(&objects[1]).await?;
    while terms.noted.lock().len() < 2 {
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(*terms.noted.lock(), [[true, true], [true, false]]);
    running.stop().await
}
