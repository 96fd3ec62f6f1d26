//! The four seams of the runtime carry what is built on them from outside of it: a part of the
//! objects that changes hands, children that are planned above a call, a second listener.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper::capability::PatchBody;
use kooper::extract::{Argument, Context};
use kooper::http::Listener;
use kooper::plan::Plan;
use kooper::prelude::*;
use kooper::prometheus::Registry;
use kooper::retriever::channel;
use kooper::testing::Cluster;
use kooper::{Controller, Health};
use kooper_runtime::internal::controller::partition::Partition;
use kooper_runtime::internal::queue::Admission;
use kooper_runtime::internal::watch::selection::CacheSelection;
use kooper_runtime::object::Object;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::fixture::{Log, config, eventually, run_edited, with_name};

/// The objects with these uids, which are also their names.
#[derive(Default)]
struct Uids {
    admitted: Mutex<BTreeSet<String>>,
    selected: Mutex<BTreeSet<String>>,
    changes: watch::Sender<u64>,
}

impl Uids {
    /// Hands over: first the keys are admitted or refused, then the cache follows.
    fn hold(&self, uids: &[&str]) {
        let uids: BTreeSet<String> = uids.iter().map(|&uid| uid.to_owned()).collect();
        *self.admitted.lock() = uids.clone();
        *self.selected.lock() = uids;
        self.changes.send_modify(|joined| *joined += 1);
    }
}

struct Part(Arc<Uids>);

impl Partition for Part {
    fn admission(&self) -> Arc<dyn Admission> {
        Arc::new(Part(self.0.clone()))
    }

    fn selection(&self) -> Option<Arc<dyn CacheSelection>> {
        Some(Arc::new(Part(self.0.clone())))
    }
}

impl Admission for Part {
    fn admits(&self, key: &ObjectKey) -> bool {
        self.0.admitted.lock().contains(key.name())
    }
}

impl CacheSelection for Part {
    fn selects(&self, object: &Object) -> bool {
        self.0.selected.lock().contains(object.uid())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_the_objects_are_handled_and_the_other_half_is_handed_over_without_a_deletion() {
    let log = Log::default();
    let handled = log.clone();
    let (retriever, events) = channel(["a", "b", "c", "d"].map(|name| config(name, "1"))).unwrap();
    let controller = Controller::builder::<ConfigMap>("half")
        .resync(None)
        .retriever(retriever)
        .deleted(log.noting(|config: Arc<ConfigMap>| format!("deleted {}", config.name_any())))
        .handler(move |config: Arc<ConfigMap>| {
            handled.note(format!("handled {}", config.name_any()));
            // A requeue that is planned goes with its object.
            async { Action::requeue_after(Duration::from_secs(600)) }
        })
        .build()
        .unwrap();
    let uids = Arc::new(Uids::default());
    uids.hold(&["a", "b"]);
    let part = Arc::new(Part(uids.clone()));
    let running = run_edited(None, [controller], |builder| builder.partition(part));
    eventually("the first half", || log.count() == 2).await;
    // The second of two changes in one watch shows that the first one was passed over.
    events.modify(&config("c", "2")).unwrap();
    events.modify(&config("b", "2")).unwrap();
    eventually("a change of the own half", || log.count() == 3).await;
    assert!(log.lines().iter().all(|line| line.ends_with(" a") || line.ends_with(" b")), "{:?}", log.lines());
    assert_eq!(running.metric(r#"kooper_store_objects{controller="half"}"#), Some(2.0));

    let before = log.count();
    uids.hold(&["c", "d"]);
    eventually("the other half", || log.count() >= before + 2).await;
    events.delete(&config("a", "3")).unwrap();
    events.modify(&config("b", "3")).unwrap();
    events.delete(&config("c", "3")).unwrap();
    eventually("a deletion in the own half", || log.lines().contains(&"deleted c".to_owned())).await;
    // Every requeue that is left is due by then.
    tokio::time::sleep(Duration::from_secs(900)).await;
    let after: BTreeSet<String> = log.lines().split_off(before).into_iter().collect();
    assert_eq!(after, ["deleted c", "handled c", "handled d"].map(str::to_owned).into());
    assert_eq!(running.metric(r#"kooper_store_objects{controller="half"}"#), Some(1.0));
    running.stop().await.unwrap();
}

/// Applies two children in their order, before a handler reads the second one.
struct Children {
    accounts: OwnedApplier<ServiceAccount>,
    secrets: OwnedApplier<Secret>,
}

type Owner = ConfigMap;

impl<S> Argument<Owner, S> for Children {
    fn plan(plan: &mut Plan) {
        <OwnedApplier<ServiceAccount> as Argument<Owner, S, _>>::plan(plan);
        <OwnedApplier<Secret> as Argument<Owner, S, _>>::plan(plan);
    }

    fn extract(context: &Context<Owner, S>) -> Self {
        Self {
            accounts: <_ as Argument<Owner, S, _>>::extract(context),
            secrets: <_ as Argument<Owner, S, _>>::extract(context),
        }
    }
}

impl Children {
    async fn apply(&self, owner: &Owner) -> Result<Secret> {
        let named = |what: &str| ObjectMeta {
            name: Some(format!("{}-{what}", owner.name_any())),
            namespace: owner.namespace(),
            ..ObjectMeta::default()
        };
        let account = ServiceAccount { metadata: named("account"), ..ServiceAccount::default() };
        let account = self.accounts.apply_owned(owner, &account).await?;
        let holder = Some([("account".to_owned(), account.name_any())].into());
        let secret = Secret { metadata: named("key"), string_data: holder, ..Secret::default() };
        Ok(self.secrets.apply_owned(owner, &secret).await?)
    }
}

#[kooper::controller(resource = ConfigMap, name = "planned", labels = "app=shop", main = false)]
async fn planned(owner: Arc<ConfigMap>, children: Children, owners: Patcher<ConfigMap>) -> Result<()> {
    let key = children.apply(&owner).await?;
    let seen = json!({"data": {"key": key.name_any()}});
    owners.patch_object(&owner, PatchBody::merge(seen)).await?;
    Ok(())
}

#[kooper::test]
async fn two_children_are_planned_above_a_call_with_the_permissions_of_their_kinds(cluster: Cluster) -> Result<()> {
    let running = cluster.run([planned::controller()?]).await?;
    let mut owner: ConfigMap = with_name("shop");
    owner.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    let owner = cluster.create(&owner).await?;
    let has_key = |owner: &ConfigMap| owner.data.as_ref().is_some_and(|data| data["key"] == "shop-key");
    cluster.wait(&owner, has_key).await;
    // A child that is deleted calls the handler of its owner.
    let account: ServiceAccount = cluster.get("shop-account").await?.ok_or("it was applied")?;
    cluster.delete(&account).await?;
    let uid = account.metadata.uid;
    cluster.wait("shop-account", |again: &ServiceAccount| again.metadata.uid != uid).await;
    running.stop().await
}

#[test]
fn a_second_listener_serves_beside_the_first() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let health = Health::default();
    let serve = || {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.serve(Registry::new(), health.clone(), runtime.handle().clone()).unwrap()
    };
    for server in [serve(), serve()] {
        let mut connection = TcpStream::connect(server.local_addr()).unwrap();
        connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
