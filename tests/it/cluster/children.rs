//! Children that the attribute declares, on a cluster of their own.

mod losses;
mod refusals;
mod trouble;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::External;
use kooper::children::plan::SlotState;
use kooper::kube;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_tests::control_plane;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

use crate::fixture::{eventually, run_tests, run_with, with_name};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "children.example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    owner: String,
    #[serde(default)]
    closed: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShopStatus {
    /// The slots that are not ready.
    waiting: Vec<String>,
    available: i32,
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// A shop with a configuration, a password, a web server, and a front that is there once the web server is ready.
#[kooper::controller(
    resource = Shop, children = [config, password(once), web(config, password), front(after = web)],
    deletion = ordered, finalizer = "children.example.com/shop", backoff = ("5ms", "50ms"), main = false,
)]
async fn shops(shop: Arc<Shop>, children: Children<Shop>, statuses: StatusWriter<Shop>) -> Result<()> {
    let waiting = children.states().filter(|(_, state)| **state != SlotState::Ready);
    let waiting = waiting.map(|(name, _)| name.to_owned()).collect();
    let available = children.get(web)?.and_then(|web| web.status.as_ref()?.available_replicas);
    let before = shop.status.clone().unwrap_or_default();
    let status = ShopStatus { waiting, available: available.unwrap_or_default(), ..before };
    statuses.apply_status(&shop, &status).await?;
    Ok(())
}

fn named<T: Resource + Default>(shop: &Shop, suffix: &str) -> T {
    with_name(&format!("{}-{suffix}", shop.name_any()))
}

fn config(shop: &Shop) -> ConfigMap {
    let data = BTreeMap::from([("owner".to_owned(), shop.spec.owner.clone())]);
    ConfigMap { data: Some(data), ..named(shop, "config") }
}

fn password(shop: &Shop) -> Result<Secret> {
    let data = BTreeMap::from([("first-owner".to_owned(), shop.spec.owner.clone())]);
    Ok(Secret { string_data: Some(data), ..named(shop, "password") })
}

fn web(shop: &Shop, config: &ConfigMap, password: &Secret) -> Result<Deployment> {
    let env = json!([
        {"configMapRef": {"name": config.name_any()}}, {"secretRef": {"name": password.name_any()}}
    ]);
    let labels = json!({"shop": shop.name_any()});
    let spec = from_value(json!({
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "example.com/web", "envFrom": env}]},
        },
    }))?;
    Ok(Deployment { spec: Some(spec), ..named(shop, "web") })
}

fn front(shop: &Shop) -> Result<Option<Service>> {
    let spec = from_value(json!({"selector": {"shop": shop.name_any()}, "ports": [{"port": 80}]}))?;
    Ok((!shop.spec.closed).then(|| Service { spec: Some(spec), ..named(shop, "front") }))
}

/// A controller without logic of its own.
#[kooper::controller(resource = Secret, labels = "copied=yes", children = [copy(gate), gate(external)], status = none, main = false)]
async fn copies() {}

fn gate(secret: &Secret) -> External<ConfigMap> {
    External::new(ObjectKey::new(secret.namespace().as_deref(), "gate"))
}

fn copy(secret: &Secret, gate: &ConfigMap) -> ConfigMap {
    let mut copy = ConfigMap { data: gate.data.clone(), ..ConfigMap::default() };
    copy.metadata.name = Some(format!("{}-copy", secret.name_any()));
    copy
}

fn shop(name: &str) -> Shop {
    Shop::new(name, ShopSpec { owner: "ann".to_owned(), closed: false })
}

fn waits_for(names: &'static [&'static str]) -> impl Fn(&Shop) -> bool {
    move |shop| shop.status.as_ref().is_some_and(|status| status.waiting == names)
}

/// Returns whether the owner is not ready for this reason.
fn says(shop: &Shop, message: &str) -> bool {
    let mut conditions = shop.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|one| one.type_ == "Ready" && one.status == "False" && one.message == message)
}

/// The status of a Deployment whose pods all run.
fn running(web: &Deployment) -> serde_json::Value {
    json!({"status": {
        "observedGeneration": web.metadata.generation,
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}],
    }})
}

#[kooper::test(shops)]
async fn a_child_is_created_once_those_before_it_are_ready(cluster: Cluster) -> Result<()> {
    cluster.stop_workloads().await;
    let shop = cluster.create(&shop("corner")).await?;
    cluster.wait(&shop, waits_for(&["web", "front"])).await;
    assert!(cluster.get::<Service>("corner-front").await?.is_none());

    let web: Deployment = cluster.wait("corner-web", |_: &Deployment| true).await;
    cluster.patch_status(&web, running(&web)).await?;
    cluster.wait("corner-front", |_: &Service| true).await;
    let is_ready = |shop: &Shop| {
        let conditions = shop.status.iter().flat_map(|status| &status.conditions);
        waits_for(&[])(shop) && conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    let shop = cluster.wait(&shop, is_ready).await;
    let status = shop.status.unwrap_or_default();
    assert_eq!((status.available, status.observed_generation), (1, shop.metadata.generation));
    Ok(())
}

#[kooper::test(shops)]
async fn a_child_that_is_no_longer_returned_is_pruned(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&shop("corner")).await?;
    let front = cluster.wait("corner-front", |_: &Service| true).await;
    cluster.patch(&shop, json!({"spec": {"closed": true}})).await?;
    cluster.wait_deleted(&front).await;
    assert!(cluster.get::<Deployment>("corner-web").await?.is_some());
    Ok(())
}

#[kooper::test(shops)]
async fn a_child_that_is_deleted_is_created_again(cluster: Cluster) -> Result<()> {
    cluster.create(&shop("corner")).await?;
    let front = cluster.wait("corner-front", |_: &Service| true).await;
    cluster.delete(&front).await?;
    cluster.wait("corner-front", |other: &Service| other.metadata.uid != front.metadata.uid).await;
    Ok(())
}

#[kooper::test(shops)]
async fn a_child_with_once_is_not_changed(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&shop("corner")).await?;
    let password = cluster.wait("corner-password", |_: &Secret| true).await;
    cluster.wait("corner-front", |_: &Service| true).await;
    cluster.patch(&shop, json!({"spec": {"owner": "bob"}})).await?;
    let is_of_bob = |config: &ConfigMap| config.data.as_ref().is_some_and(|data| data["owner"] == "bob");
    cluster.wait("corner-config", is_of_bob).await;
    let now: Option<Secret> = cluster.get("corner-password").await?;
    assert_eq!(now.and_then(|now| now.data), password.data);
    Ok(())
}

#[kooper::test(shops)]
async fn children_are_deleted_before_those_that_they_depend_on(cluster: Cluster) -> Result<()> {
    let shop = cluster.create(&shop("corner")).await?;
    let front = cluster.wait("corner-front", |_: &Service| true).await;
    let web: Deployment = cluster.wait("corner-web", |_: &Deployment| true).await;
    let web = cluster.patch(&web, json!({"metadata": {"finalizers": ["example.com/slow"]}})).await?;

    cluster.delete(&shop).await?;
    cluster.wait_deleted(&front).await;
    let message = format!("waits until deployments.apps `{}/corner-web` is gone", cluster.namespace());
    cluster.wait(&shop, |shop: &Shop| says(shop, &message)).await;
    cluster.wait(&web, |web: &Deployment| web.metadata.deletion_timestamp.is_some()).await;
    let config: Option<ConfigMap> = cluster.get("corner-config").await?;
    assert!(config.as_ref().is_some_and(|config| config.metadata.deletion_timestamp.is_none()));

    cluster.patch(&web, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&shop).await;
    let left: Option<ConfigMap> = cluster.get("corner-config").await?;
    assert!(left.is_none(), "{left:?}");
    Ok(())
}

#[kooper::test(shops)]
async fn the_pods_of_a_child_are_gone_before_the_next_wave(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(60));
    let shop = cluster.create(&shop("corner")).await?;
    cluster.wait("corner-front", |_: &Service| true).await;
    let pods: Vec<Pod> = cluster.list().await?;
    let [pod] = &*pods else { return Err(format!("there is not one pod: {pods:?}").into()) };
    cluster.patch(pod, json!({"metadata": {"finalizers": ["example.com/slow"]}})).await?;

    cluster.delete(&shop).await?;
    let message = format!("waits until deployments.apps `{}/corner-web` is gone", cluster.namespace());
    cluster.wait(&shop, |shop: &Shop| says(shop, &message)).await;
    cluster.wait(pod, |pod: &Pod| pod.metadata.deletion_timestamp.is_some()).await;
    assert!(cluster.get::<Deployment>("corner-web").await?.is_some(), "it is gone after its pods");
    let config: Option<ConfigMap> = cluster.get("corner-config").await?;
    assert!(config.is_some_and(|config| config.metadata.deletion_timestamp.is_none()), "the pod still uses it");

    cluster.patch(pod, json!({"metadata": {"finalizers": null}})).await?;
    cluster.wait_deleted(&shop).await;
    Ok(())
}

#[kooper::test]
async fn an_external_object_is_awaited_and_passed_on(cluster: Cluster) -> Result<()> {
    let mut secret: Secret = with_name("one");
    secret.metadata.labels = Some(BTreeMap::from([("copied".to_owned(), "yes".to_owned())]));
    cluster.create(&secret).await?;

    let mut gate: ConfigMap = with_name("gate");
    gate.data = Some(BTreeMap::from([("open".to_owned(), "yes".to_owned())]));
    cluster.create(&gate).await?;
    let running = cluster.run([copies::controller()?]).await?;
    let copy = cluster.wait("one-copy", |_: &ConfigMap| true).await;
    assert_eq!(copy.data, gate.data);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn the_owners_are_counted_by_slot_and_state(cluster: Cluster) -> Result<()> {
    let running = run_with(Some(cluster.client()), [copies::controller()?]);
    let other: Namespace = with_name("other");
    cluster.create(&other).await?;
    let created = async |namespace: &str, name: &str, is_gate: bool| {
        let metadata = json!({"name": name, "namespace": namespace, "labels": {"copied": "yes"}});
        if is_gate {
            cluster.create(&from_value::<ConfigMap>(json!({"metadata": metadata}))?).await?;
        } else {
            cluster.create(&from_value::<Secret>(json!({"metadata": metadata}))?).await?;
        }
        Result::<()>::Ok(())
    };
    let counts = || {
        let count = |state: &str| {
            running.metric(&format!("kooper_child_state{{controller=\"copies\",slot=\"copy\",state=\"{state}\"}}"))
        };
        ["held", "ready"].map(|state| count(state).unwrap_or_default())
    };
    let are = async |expected: [f64; 2]| {
        let wait = eventually("the counts", || counts() == expected);
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        waited.unwrap_or_else(|_| panic!("{:?} instead of {expected:?}", counts()));
    };
    created(cluster.namespace(), "one", false).await?;
    created("other", "two", false).await?;
    created("other", "gate", true).await?;
    are([1.0, 1.0]).await;
    created(cluster.namespace(), "gate", true).await?;
    are([0.0, 2.0]).await;
    let one: Secret = cluster.get("one").await?.ok_or("there is no Secret")?;
    cluster.delete(&one).await?;
    are([0.0, 1.0]).await;
    running.stop().await?;
    Ok(())
}

#[test]
fn the_same_holds_on_the_real_server() {
    let Some(assets) = control_plane::assets() else { return };
    let tests = [
        "a_child_that_is_no_longer_returned_is_pruned",
        "the_pods_of_a_child_are_gone_before_the_next_wave",
        "children_are_deleted_before_those_that_they_depend_on",
        "trouble::a_child_is_created_when_those_before_it_are_ready_and_the_status_names_what_is_awaited",
        "trouble::an_owner_that_is_deleted_while_it_is_created_leaves_no_child",
        "trouble::an_owner_that_is_deleted_in_the_foreground_is_gone_with_a_warning",
        "trouble::the_children_of_an_owner_that_is_deleted_with_the_policy_orphan_are_kept",
        "trouble::a_cluster_scoped_child_has_no_owner_reference_and_is_deleted_with_its_owner",
        "trouble::another_selector_stalls_the_owner_unless_the_child_is_recreated",
        "trouble::a_child_that_kubectl_edits_becomes_what_its_function_returns",
        "trouble::an_object_that_exists_is_adopted_if_the_slot_says_so_and_otherwise_left_alone",
        "trouble::a_child_that_two_owners_name_belongs_to_the_first_until_that_one_is_gone",
        "trouble::children_of_slots_that_were_removed_are_pruned_unless_they_were_adopted_or_kept",
        "losses::an_object_that_is_adopted_once_gets_an_owner_and_keeps_what_it_holds",
        "losses::two_children_of_one_name_fail_their_slot",
        "losses::a_child_that_does_not_decode_holds_up_its_own_slot_and_no_deletion",
    ];
    let others = [
        "attribute::a_shop_opens_and_closes",
        "attribute::a_wait_that_fails_names_its_line_and_shows_what_is_there",
        // It is skipped.
        "attribute::a_child_is_applied_again_after_a_fault",
    ];
    let tests = tests.map(|name| format!("children::{name}")).into_iter().chain(others.map(str::to_owned));
    let tests: Vec<_> = tests.map(|name| format!("cluster::{name}")).collect();
    let set = [("KOOPER_TEST_SERVER", "real"), ("KUBEBUILDER_ASSETS", assets.to_str().expect("a path in UTF-8"))];
    // They share the server, and wait more than they compute.
    let (passed, printed) = run_tests(&tests, &["--nocapture", "--test-threads=16"], &set);
    let skipped = |why: &str| printed.matches(&*format!("skipped: {why}")).count();
    assert!(passed && skipped("") == 1 && skipped("the real server injects no faults") == 1, "{printed}");
}
