//! Tests on a cluster of their own, with the attribute `#[kooper::test]`.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kooper::Controller;
use kooper::apiserver::faults::{Requests, Verb};
use kooper::capability::PatchBody;
use kooper::kube;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fixture::{run_tests, with_name};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    owner: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {
    open: bool,
}

/// A Secret for each Shop, and a log of the closed ones.
#[kooper::controller(resource = Shop, cleanup = close, finalizer = "example.com/shop", backoff = ("5ms", "50ms"), main = false)]
async fn shops(shop: Arc<Shop>, secrets: OwnedApplier<Secret>, statuses: StatusWriter<Shop>) -> Result<()> {
    let mut secret: Secret = with_name(&format!("{}-key", shop.name_any()));
    secret.string_data = Some(BTreeMap::from([("owner".to_owned(), shop.spec.owner.clone())]));
    secrets.apply_owned(&shop, &secret).await?;
    statuses.apply_status(&shop, &ShopStatus { open: true }).await?;
    Ok(())
}

async fn close(shop: Arc<Shop>, logs: Applier<ConfigMap>) -> Result<()> {
    let mut log: ConfigMap = with_name(&format!("{}-closed", shop.name_any()));
    log.metadata.namespace = shop.namespace();
    logs.apply(&log).await?;
    Ok(())
}

/// Reads what its role does not allow.
#[kooper::controller(resource = ConfigMap, name = "curious", rbac("configmaps: get"), main = false)]
async fn curious(config: Arc<ConfigMap>, client: Client) -> Result<()> {
    let secrets: kube::Api<Secret> = kube::Api::namespaced(client, &config.namespace().unwrap_or_default());
    secrets.get("any").await?;
    Ok(())
}

fn shop(name: &str) -> Shop {
    Shop::new(name, ShopSpec { owner: "ann".to_owned() })
}

fn config(name: &str) -> ConfigMap {
    with_name(name)
}

fn is_open(shop: &Shop) -> bool {
    shop.status.as_ref().is_some_and(|status| status.open)
}

#[kooper::test(shops)]
async fn a_shop_opens_and_closes(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&shop("corner")).await?;
    let open = cluster.wait(&shop, is_open).await;
    assert_eq!(open.metadata.finalizers.as_deref(), Some(&["example.com/shop".to_owned()][..]));
    let key = cluster.wait("corner-key", |_: &Secret| true).await;
    assert_eq!(key.metadata.namespace.as_deref(), Some(cluster.namespace()));

    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    let closed: Option<ConfigMap> = cluster.get("corner-closed").await?;
    assert!(closed.is_some());
    Ok(())
}

#[kooper::test(shops)]
async fn a_child_is_applied_again_after_a_fault(cluster: Cluster) -> Result<()> {
    let secrets = cluster.faults().on(Verb::Patch.of("secrets")).first(2).reply(503);
    let statuses = cluster.faults().on(Verb::Patch.of("shops/status")).nth(1).drop_response();
    cluster.create(&shop("corner")).await?;
    cluster.wait("corner", is_open).await;
    assert_eq!((secrets.times(), statuses.times()), (2, 1));
    Ok(())
}

#[kooper::test]
async fn controllers_run_under_their_own_role(cluster: Cluster) -> Result<()> {
    let running = cluster.run([curious::controller()?]).await?;
    cluster.create(&config("a")).await?;
    let forbidden = async {
        while !cluster.requests().iter().any(|request| {
            request.resource() == "secrets"
                && request.status() == Some(403)
                && request.user() == "system:serviceaccount:default:test"
        }) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), forbidden).await?;
    running.stop().await
}

#[kooper::test]
async fn an_empty_namespace_counts_as_none(cluster: Cluster) -> Result<()> {
    let mut empty = config("a");
    empty.metadata.namespace = Some(String::new());
    let created = cluster.create(&empty).await?;
    assert_eq!(created.namespace().as_deref(), Some(cluster.namespace()));
    cluster.patch(&empty, json!({"data": {"size": "3"}})).await?;
    cluster.delete(&empty).await?;
    cluster.wait_deleted(&empty).await;
    let put = kooper::testing::FakeCluster::new().put(&empty)?;
    assert_eq!(put.namespace().as_deref(), Some("default"));
    Ok(())
}

#[kooper::test]
async fn a_key_without_a_namespace_is_in_that_of_the_test(cluster: Cluster) -> Result<()> {
    let config = config("a");
    cluster.create(&config).await?;
    let found = cluster.wait(&ObjectKey::of(&config), |_: &ConfigMap| true).await;
    assert_eq!(found.namespace().as_deref(), Some(cluster.namespace()));
    let own: Option<Namespace> = cluster.get(&ObjectKey::namespaced("any", cluster.namespace())).await?;
    assert!(own.is_some(), "a cluster-scoped kind has none");
    Ok(())
}

#[kooper::test]
async fn an_object_that_was_read_is_applied_with_a_change(cluster: Cluster) -> Result<()> {
    let created = cluster.create(&config("a")).await?;
    let mut changed = created.clone();
    changed.data = Some([("size".to_owned(), "3".to_owned())].into());
    assert_eq!(cluster.apply(&changed).await?.data, changed.data);
    let error = cluster.apply(&created).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "it has changed since: {error}");
    Ok(())
}

#[kooper::test]
async fn what_the_test_asks_meets_no_faults(cluster: Cluster) -> Result<()> {
    cluster.faults().on(Requests::all()).reply(503);
    let _outage = cluster.faults().outage();
    let created = cluster.create(&config("a")).await?;
    let patched = cluster.patch(&created, json!({"data": {"k": "v"}})).await?;
    assert_eq!(patched.data.as_ref().map(BTreeMap::len), Some(1));
    let applied = cluster.apply(&config("b")).await?;
    assert_eq!(applied.metadata.namespace.as_deref(), Some(cluster.namespace()));
    assert_eq!(cluster.list::<ConfigMap>().await?.iter().filter(|map| map.name_any().len() == 1).count(), 2);
    let default: Option<Namespace> = cluster.get("default").await?;
    assert!(default.is_some(), "a cluster-scoped object has no namespace");
    assert!(cluster.requests().is_empty());
    Ok(())
}

#[kooper::test(shops)]
async fn a_status_is_patched_and_an_invalid_object_is_rejected(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&shop("corner")).await?;
    cluster.wait(&shop, is_open).await;
    let error = cluster.patch(&shop, json!({"spec": {"owner": 7}})).await.expect_err("it does not fit the schema");
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 422), "{error}");
    let closed = cluster.patch_status(&shop, json!({"status": {"open": false}})).await?;
    assert!(!is_open(&closed));
    Ok(())
}

#[kooper::test]
async fn arguments_are_of_the_cluster_as_it_is(cluster: Cluster) -> Result<()> {
    async fn count(config: Arc<ConfigMap>, configs: Reader<ConfigMap>, patcher: Patcher<ConfigMap>) -> Result<usize> {
        patcher.patch_object(&config, PatchBody::merge(json!({"data": {"seen": "yes"}}))).await?;
        Ok(configs.list().count())
    }
    cluster.create(&config("a")).await?;
    let config = Arc::new(cluster.create(&config("b")).await?);
    let arguments = cluster.arguments(&config);
    let counted = count(config.clone(), arguments.take().await, arguments.take().await).await?;
    assert!(counted >= 2);
    cluster.wait(&*config, |config: &ConfigMap| config.data.is_some()).await;
    Ok(())
}

/// Returns the message with which a wait panics.
async fn message<T>(wait: impl Future<Output = T>) -> String {
    let panic = AssertUnwindSafe(wait).catch_unwind().await.err().expect("it is not fulfilled");
    *panic.downcast::<String>().expect("a message")
}

#[kooper::test]
async fn a_wait_that_fails_names_its_line_and_shows_what_is_there(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_millis(30));
    let created = cluster.create(&config("a")).await?;
    let (line, wait) = (line!(), cluster.wait("a", |a: &ConfigMap| a.data.is_some()));
    let shown = message(wait).await;
    let lines: Vec<_> = shown.lines().collect();
    let after = format!(": the condition was not met within 30ms: the ConfigMap `{}/a` is:", cluster.namespace());
    assert!(lines[0].contains(&format!("attribute.rs:{line}:")) && lines[0].ends_with(&after), "{shown}");
    assert!(lines[2..].contains(&"    kind: ConfigMap") && !shown.contains("managedFields"), "{shown}");

    let shown = message(cluster.wait("b", |_: &ConfigMap| true)).await;
    assert!(shown.contains(&format!("there is no ConfigMap `{}/b`, but `a`", cluster.namespace())), "{shown}");
    let shown = message(cluster.wait("b", |_: &Secret| true)).await;
    assert!(shown.contains(&format!("there is no Secret in the namespace `{}`", cluster.namespace())), "{shown}");
    let shown = message(cluster.wait_deleted(&created)).await;
    assert!(shown.contains(&format!("within 30ms: the ConfigMap `{}/a` is:", cluster.namespace())), "{shown}");
    Ok(())
}

#[kooper::test]
async fn a_wait_may_have_no_limit(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::MAX);
    let created = cluster.create(&config("a")).await?;
    cluster.wait("a", |_: &ConfigMap| true).await;
    cluster.delete(&created).await?;
    cluster.wait_deleted(&created).await;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_wait_for_a_kind_without_a_crd_says_so(cluster: Cluster) {
    let shown = message(cluster.wait("corner", is_open)).await;
    assert!(shown.ends_with("the API server does not serve Shop: install its CRD with `install_crd`"), "{shown}");
}

#[kooper::test(start_paused = true)]
async fn a_wait_that_fails_shows_the_last_error_of_the_handler(cluster: Cluster) -> Result<()> {
    async fn open(config: Arc<ConfigMap>) -> Result<()> {
        if config.name_any() == "a" { Err("the key is lost".into()) } else { Ok(()) }
    }
    let running = cluster.run([ConfigMap::controller("opener").handler(open).build()?]).await?;
    let created = cluster.create(&config("a")).await?;
    let error = "\n\nproblems of the controllers:\n  opener, default/a: the handler failed: the key is lost (call ";
    let shown = message(cluster.wait("a", |a: &ConfigMap| a.data.is_some())).await;
    assert!(shown.contains("kind: ConfigMap") && shown.contains(error), "{shown}");
    let shown = message(cluster.wait_deleted(&created)).await;
    assert!(shown.contains(error), "{shown}");
    running.stop().await?;
    let shown = message(cluster.wait("a", |a: &ConfigMap| a.data.is_some())).await;
    assert!(!shown.contains("problems"), "{shown}");
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_wait_that_fails_shows_a_call_that_does_not_end(cluster: Cluster) -> Result<()> {
    async fn open(config: Arc<ConfigMap>) {
        if config.name_any() == "a" {
            std::future::pending::<()>().await;
        }
    }
    let running = cluster.run([ConfigMap::controller("opener").handler(open).build()?]).await?;
    cluster.create(&config("a")).await?;
    let shown = message(cluster.wait("a", |a: &ConfigMap| a.data.is_some())).await;
    assert!(shown.contains("\n  opener, default/a: the call has not ended after "), "{shown}");
    running.kill().await;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_wait_that_fails_shows_a_controller_that_does_not_lead(cluster: Cluster) -> Result<()> {
    async fn open(_: Arc<ConfigMap>) {}
    let opener = || ConfigMap::controller("opener").leader_election(LeaderElection::new()).handler(open).build();
    let leader = cluster.run([opener()?]).await?;
    let is_held = |lease: &Lease| lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.is_some());
    cluster.wait("test-opener", is_held).await;
    leader.kill().await;
    let standby = cluster.run([opener()?]).await?;
    let shown = message(cluster.wait("a", |_: &ConfigMap| true)).await;
    assert!(shown.contains("\n  opener: standby: the lease is held by "), "{shown}");
    standby.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_start_that_fails_shows_an_init_that_fails_after_the_election(cluster: Cluster) -> Result<()> {
    async fn connect() -> Result<()> {
        Err("the database is away".into())
    }
    async fn open(_: Arc<ConfigMap>) {}
    let opener = ConfigMap::controller("opener").init(connect).leader_election(LeaderElection::new());
    let error = cluster.run([opener.handler(open).build()?]).await.unwrap_err();
    assert!(error.to_string().contains(": opener: `init` failed: the database is away"), "{error}");
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_wait_that_fails_shows_a_controller_that_was_dropped(cluster: Cluster) -> Result<()> {
    async fn open(_: Arc<ConfigMap>) {}
    let opener = || ConfigMap::controller("opener").handler(open).build();
    drop(cluster.run([opener()?]).await?);
    let dropped = "\n  opener: it was stopped when its `Running` was dropped";
    let shown = message(cluster.wait("a", |_: &ConfigMap| true)).await;
    assert!(shown.contains(dropped), "{shown}");
    let running = cluster.run([opener()?]).await?;
    let shown = message(cluster.wait("a", |_: &ConfigMap| true)).await;
    assert!(!shown.contains(dropped), "{shown}");
    running.stop().await
}

/// Fails where `KOOPER_FAIL` says so, as the next test does.
#[kooper::test(shops)]
async fn a_test_may_fail(cluster: Cluster) -> Result<()> {
    if std::env::var_os("KOOPER_FAIL").is_some() {
        cluster.faults().on(Verb::Patch.of("secrets")).reply(503);
        cluster.create(&shop("corner")).await?;
        cluster.with_timeout(Duration::from_millis(300)).wait("corner", is_open).await;
    }
    Ok(())
}

/// The same, without the attribute.
#[tokio::test]
async fn a_test_that_starts_its_cluster_may_fail() -> Result<()> {
    if std::env::var_os("KOOPER_FAIL").is_some() {
        let cluster = Cluster::start().await?.with_timeout(Duration::from_millis(30));
        cluster.faults().on("secrets").reply(503);
        let secrets = kube::Api::<Secret>::default_namespaced(cluster.client());
        secrets.get("corner-key").await.expect_err("it is rejected");
        cluster.wait("corner", |_: &ConfigMap| true).await;
    }
    Ok(())
}

/// Runs one test of this file, which fails, and returns what it printed.
fn failed(name: &str, seed: &str) -> String {
    let set = [("KOOPER_FAIL", "1"), ("KOOPER_SEED", seed)];
    let (passed, printed) = run_tests(&[format!("cluster::attribute::{name}")], &["--nocapture"], &set);
    assert!(!passed && printed.contains("running 1 test"), "{printed}");
    printed
}

#[test]
fn a_failed_test_shows_the_last_requests_and_the_seed() {
    let printed = failed("a_test_may_fail", "7");
    for part in [
        "not met within 300ms",
        "the Shop `default/corner` is:",
        "  patch secrets default/corner-key by system:serviceaccount:default:test: 503, injected",
        "injected, seed 7",
        "KOOPER_FAULTS=",
    ] {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
    let printed = failed("a_test_that_starts_its_cluster_may_fail", "8");
    for part in ["there is no ConfigMap", "  get secrets default/corner-key by ", ": 503, injected", "injected, seed 8"]
    {
        assert_eq!(printed.matches(part).count(), 1, "{part}\n{printed}");
    }
}

#[kooper::test(start_paused = true)]
async fn a_crd_that_is_not_established_is_an_error_with_its_reason(cluster: Cluster) -> Result<()> {
    cluster.install_crd(&Shop::crd()).await?;
    let mut other = Shop::crd();
    other.metadata.name = Some("stores.example.com".to_owned());
    other.spec.names.plural = "stores".to_owned();
    other.spec.names.singular = Some("store".to_owned());
    let error = format!("{:?}", cluster.install_crd(&other).await.expect_err("another CRD has its kind"));
    let expected = ["the CRD `stores.example.com` is not established: ", "is already in use: delete the other CRD"];
    assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_controllers_has_nothing_to_run() {
    let cluster = Cluster::start().await.expect("it starts");
    let controllers: [Controller; 0] = [];
    let error = cluster.run(controllers).await.expect_err("nothing runs");
    assert!(error.to_string().contains("no controller"), "{error}");
}

/// A state and settings, as arguments of one call.
#[kooper::test]
async fn a_handler_with_a_state_and_settings_is_called_in_one_line(cluster: Cluster) -> Result<()> {
    struct Size {
        value: usize,
    }
    async fn grow(_: Arc<Secret>, seen: State<parking_lot::Mutex<Vec<usize>>>, size: Settings<Size>) {
        seen.lock().push(size.value);
    }
    let seen = State::new(parking_lot::Mutex::new(Vec::new()));
    let secret: Secret = with_name("one");

    let cluster = cluster.with_settings(Size { value: 3 });
    let object = Arc::new(cluster.create(&secret).await?);
    let action = cluster.arguments(&object).state(seen.clone()).call(grow).await?;
    assert_eq!((action, seen.lock().clone()), (Action::done(), vec![3]));

    let fake = kooper::testing::FakeCluster::new();
    fake.settings(Size { value: 4 });
    let object = fake.put(&secret)?;
    let arguments = fake.arguments(&object).state(seen.clone());
    assert_eq!(arguments.call(grow).await?, Action::done());
    grow(object, arguments.take(), arguments.take()).await;
    assert_eq!(*seen.lock(), [3, 4, 4]);
    Ok(())
}
