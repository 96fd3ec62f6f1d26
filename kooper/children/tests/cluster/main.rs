//! Declared children on an embedded API server whose pods run.

mod apart;
mod conflicts;
mod daemon;
mod explored;
mod external;
mod flags;
mod immutable;
mod optional;
mod orphan;
mod paused;
mod previous;
mod status;
mod terms;
mod unseen;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::apiserver::faults::Requests;
use kooper::prelude::*;
use kooper::testing::{Cluster, Running};
use kooper::{ConfigError, Controller};
use kooper_children::{Children, Declared, PlanSlot, SlotExt, StatusFields, declare};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    /// The suffix of the name of its ConfigMap.
    config: String,
    #[serde(default)]
    front: bool,
    #[serde(default)]
    shelves: Vec<String>,
    /// Its function fails.
    #[serde(default)]
    broken: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
struct ShopStatus {
    open: i32,
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

fn with_name<T: Resource + Default>(name: &str) -> T {
    let mut object = T::default();
    object.meta_mut().name = Some(name.to_owned());
    object
}

fn config(shop: &Shop) -> Result<ConfigMap> {
    if shop.spec.broken {
        return Err("the shop is broken".into());
    }
    Ok(from_value(json!({"metadata": {"name": format!("{}-{}", shop.name_any(), shop.spec.config)}}))?)
}

fn password(shop: &Shop) -> Result<Secret> {
    let name = format!("{}-password", shop.name_any());
    Ok(from_value(json!({"metadata": {"name": name}, "stringData": {"made-for": shop.spec.config}}))?)
}

fn shelves(shop: &Shop) -> Vec<ConfigMap> {
    shop.spec.shelves.iter().map(|shelf| with_name(&format!("{}-shelf-{shelf}", shop.name_any()))).collect()
}

fn web(shop: &Shop, config: &ConfigMap, password: &Secret, shelves: &[ConfigMap]) -> Result<Deployment> {
    let environment = [config.name_any(), password.name_any()];
    let labels = json!({"shop": shop.name_any()});
    Ok(from_value(json!({
        "metadata": {"name": shop.name_any()},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "web", "image": "example.com/web",
                    "args": [environment.join(","), shelves.len().to_string()],
                }]},
            },
        },
    }))?)
}

fn front(shop: &Shop) -> Result<Option<Service>> {
    if !shop.spec.front {
        return Ok(None);
    }
    let name = format!("{}-front", shop.name_any());
    Ok(Some(from_value(json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}))?))
}

async fn shops(shop: Arc<Shop>, children: Children<Shop>, statuses: StatusWriter<Shop>) -> Result<()> {
    let web = children.get(web)?.and_then(|web| web.status.clone()).unwrap_or_default();
    let before = shop.status.clone().unwrap_or_default();
    let status = ShopStatus { open: web.available_replicas.unwrap_or_default(), ..before };
    statuses.apply_status(&shop, &status).await?;
    Ok(())
}

fn fields(status: &mut ShopStatus, fields: &mut StatusFields) {
    fields.conditions(&mut status.conditions).observed_generation(&mut status.observed_generation);
}

fn children() -> Declared<Shop, (), impl PlanSlot<Shop, ()> + 'static> {
    let children = declare()
        .child(config)
        .child(password.slot().once())
        .child(shelves)
        .child(web.with((config, password, shelves)))
        .child(front.slot().after(web))
        .status(fields);
    children.build().expect("they depend on each other in one direction")
}

/// A controller whose handler and cleanup do nothing.
fn controller_of(children: &Declared<Shop, (), impl PlanSlot<Shop, ()> + 'static>) -> Result<Controller, ConfigError> {
    Shop::controller("shops")
        .install_crd()
        .handler(children.handler(async || {}))
        .cleanup("example.com/shop", children.deletion(async || {}))
        .build()
}

fn controller() -> Result<Controller, ConfigError> {
    let children = children();
    Shop::controller("shops")
        .install_crd()
        .handler(children.handler(shops))
        .cleanup("example.com/shop", children.deletion(async || {}))
        .build()
}

fn corner(config: &str, front: bool, shelves: &[&str]) -> Shop {
    let shelves = shelves.iter().map(|&shelf| shelf.to_owned()).collect();
    Shop::new("corner", ShopSpec { config: config.to_owned(), front, shelves, broken: false })
}

fn ready(shop: &Shop) -> Option<&Condition> {
    shop.status.as_ref()?.conditions.iter().find(|one| one.type_ == "Ready")
}

fn is_ready(shop: &Shop) -> bool {
    ready(shop).is_some_and(|ready| ready.status == "True" && ready.observed_generation == shop.metadata.generation)
}

/// Runs a controller, and creates a shop.
async fn run_with(cluster: &Cluster, controller: Controller, shop: &Shop) -> Result<(Running, Shop)> {
    Ok((cluster.run([controller]).await?, cluster.create(shop).await?))
}

/// Runs a controller, creates a shop, and waits until no call is due.
async fn run_settled(cluster: &Cluster, controller: Controller, shop: &Shop) -> Result<(Running, Shop)> {
    let ran = run_with(cluster, controller, shop).await?;
    cluster.settle().await;
    Ok(ran)
}

/// Runs a controller, creates a shop, and waits until it is ready.
async fn run_ready(cluster: &Cluster, controller: Controller, shop: &Shop) -> Result<(Running, Shop)> {
    let (running, shop) = run_with(cluster, controller, shop).await?;
    Ok((running, cluster.wait(&shop, is_ready).await))
}

/// The writes to these resources, as `verb resource`, in their order.
fn writes(cluster: &Cluster, resources: &[&str]) -> Vec<String> {
    let requests = cluster.requests();
    let is_read = |verb: &str| matches!(verb, "get" | "list" | "watch");
    let ours = requests.iter().filter(|one| resources.contains(&one.resource()) && !is_read(one.verb()));
    ours.map(|request| format!("{} {}", request.verb(), request.resource())).collect()
}

#[kooper::test]
async fn children_are_created_in_their_order_and_the_owner_is_ready_when_all_are(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_ready(&cluster, controller()?, &corner("a", true, &["1", "2"])).await?;
    assert_eq!(shop.status.map(|status| status.open), Some(1));
    let web: Deployment = cluster.get("corner").await?.ok_or("there is no Deployment")?;
    assert_eq!(web.labels()["kooper.rs/slot"], "web");
    assert_eq!(web.labels()["kooper.rs/depth"], "1");
    assert_eq!(web.labels()["kooper.rs/controller"], "shops");
    assert_eq!(web.labels()["kooper.rs/bucket"].len(), 2);
    assert!(web.labels().contains_key("kooper.rs/program"));
    let front: Service = cluster.get("corner-front").await?.ok_or("there is no Service")?;
    assert!(front.creation_timestamp() >= web.creation_timestamp());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_that_no_slot_wants_is_pruned_when_its_successor_is_in_use(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, controller()?, &corner("a", true, &["1", "2"])).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b", "front": false, "shelves": ["2"]}})).await?;
    cluster.settle().await;
    assert!(is_ready(&cluster.get("corner").await?.ok_or("there is no Shop")?));
    let configs: Vec<ConfigMap> = cluster.list().await?;
    let names: Vec<_> = configs.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("corner")).collect();
    assert_eq!(names, ["corner-b", "corner-shelf-2"]);
    assert!(cluster.get::<Service>("corner-front").await?.is_none());
    let password: Secret = cluster.get("corner-password").await?.ok_or("there is no Secret")?;
    assert_eq!(password.data.unwrap_or_default()["made-for"].0, b"a", "it was made once");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_function_that_fails_prunes_nothing_and_is_told_in_the_status(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, controller()?, &corner("a", true, &[])).await?;
    cluster.patch(&shop, json!({"spec": {"broken": true, "config": "b"}})).await?;
    let says = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message == "config: the shop is broken");
    cluster.wait(&shop, says).await;
    assert!(cluster.get::<ConfigMap>("corner-a").await?.is_some());
    assert!(cluster.get::<Deployment>("corner").await?.is_some());
    cluster.patch(&shop, json!({"spec": {"broken": false}})).await?;
    cluster.wait(&shop, is_ready).await;
    cluster.settle().await;
    assert!(cluster.get::<ConfigMap>("corner-a").await?.is_none());
    running.stop().await
}

/// A Secret with a key for each shelf.
fn keys(shop: &Shop) -> Result<Secret> {
    let keys: BTreeMap<_, _> = shop.spec.shelves.iter().map(|shelf| (shelf, "open sesame")).collect();
    Ok(from_value(json!({"metadata": {"name": "keys"}, "stringData": keys}))?)
}

#[kooper::test(start_paused = true)]
async fn a_key_of_a_secret_that_is_no_longer_set_as_a_string_is_removed(cluster: Cluster) -> Result<()> {
    let children = declare().child(keys).status(fields).build().expect("the slot is right");
    let controller = Shop::controller("shops").install_crd().handler(children.handler(async || {})).build()?;
    let (running, shop) = run_ready(&cluster, controller, &corner("a", false, &["1", "2"])).await?;
    cluster.patch(&shop, json!({"spec": {"shelves": ["2"]}})).await?;
    cluster.wait(&shop, is_ready).await;
    let secret: Secret = cluster.get("keys").await?.ok_or("there is no Secret")?;
    let left: Vec<_> = secret.data.unwrap_or_default().into_keys().collect();
    assert_eq!(left, ["2"]);
    running.stop().await
}

/// A controller, and the number of its calls.
fn counting() -> Result<(Controller, Arc<AtomicU32>), ConfigError> {
    let (children, calls) = (children(), Arc::new(AtomicU32::new(0)));
    let counted = calls.clone();
    let handler = children.handler(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    Ok((Shop::controller("shops").install_crd().handler(handler).build()?, calls))
}

#[kooper::test(start_paused = true)]
async fn a_pass_without_changes_over_six_children_sends_nothing(cluster: Cluster) -> Result<()> {
    let (controller, calls) = counting()?;
    let (running, shop) = run_settled(&cluster, controller, &corner("a", true, &["1", "2"])).await?;
    assert!(is_ready(&cluster.get("corner").await?.ok_or("there is no Shop")?));
    let before = calls.load(Ordering::SeqCst);
    let requests = cluster.faults().on(Requests::all()).delay(Duration::ZERO);
    cluster.patch(&shop, json!({"metadata": {"annotations": {"example.com/note": "a call"}}})).await?;
    cluster.settle().await;
    assert!(calls.load(Ordering::SeqCst) > before, "it is called");
    assert_eq!(requests.times(), 0);
    running.stop().await
}

#[test]
fn the_rules_follow_from_the_functions() -> Result<()> {
    let controller = controller()?;
    let needs = controller.plan().needs();
    let rules = |resource: &str| {
        let rules = needs.iter().map(|need| need.rule.to_string());
        rules.filter(|rule| rule.contains(resource)).collect::<BTreeSet<_>>()
    };
    let of = |verbs: &[&str]| verbs.iter().map(|verbs| format!("services: {verbs}")).collect();
    assert_eq!(rules("services"), of(&["create, patch", "delete", "list, watch"]));
    Ok(())
}
