//! Objects of other controllers, for which slots stand.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{ConfigError, Controller};
use kooper_children::{External, SlotExt, declare};
use parking_lot::Mutex;
use serde_json::{from_value, json};

use super::{Shop, ShopSpec, corner, fields, is_ready, ready, run_settled, with_name};

/// The calls of a handler: the owner, and the reasons.
type Calls = Arc<Mutex<Vec<String>>>;

fn tls(shop: &Shop) -> External<Secret> {
    External::new(ObjectKey::of(shop).with_name(&format!("tls-{}", shop.spec.config)))
}

/// A child of the kind of the external object.
fn copy(shop: &Shop, tls: &Secret) -> Secret {
    Secret { data: tls.data.clone(), ..with_name(&format!("{}-copy", shop.name_any())) }
}

fn elsewhere(_: &Shop) -> External<Secret> {
    External::new(ObjectKey::namespaced("elsewhere", "tls"))
}

/// The keys of both.
fn both(shop: &Shop, tls: &Secret, elsewhere: &Secret) -> ConfigMap {
    let data = Some([("keys".to_owned(), key_in(tls) + &key_in(elsewhere))].into());
    ConfigMap { data, ..with_name(&format!("{}-both", shop.name_any())) }
}

fn copies(calls: &Calls) -> Result<Controller, ConfigError> {
    let children = declare().child(tls).child(copy.with((tls,))).status(fields).build().expect("the slots are right");
    let calls = calls.clone();
    let handler = move |shop: Arc<Shop>, call: Call| {
        calls.lock().push(format!("{}: {}", shop.name_any(), call.reasons()));
        async {}
    };
    Shop::controller("shops")
        .install_crd()
        .resync(None)
        .handler(children.handler(handler))
        .cleanup("example.com/shop", children.deletion(async || {}))
        .build()
}

fn secret(name: &str, key: &str) -> Result<Secret> {
    Ok(from_value(json!({"metadata": {"name": name}, "stringData": {"key": key}}))?)
}

fn key_in(secret: &Secret) -> String {
    let key = secret.data.as_ref().and_then(|data| data.get("key"));
    key.map(|key| String::from_utf8_lossy(&key.0).into_owned()).unwrap_or_default()
}

async fn rotate(cluster: &Cluster, secret: &Secret, key: &str) -> Result<()> {
    cluster.patch(secret, json!({"stringData": {"key": key}})).await?;
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_rotated_secret_reaches_the_children_of_all_owners_that_take_it_at_once(cluster: Cluster) -> Result<()> {
    let calls = Calls::default();
    let tls = cluster.create(&secret("tls-a", "1")?).await?;
    let mut running = cluster.run([copies(&calls)?]).await?;
    for name in ["corner", "market"] {
        cluster.create(&Shop::new(name, ShopSpec { config: "a".to_owned(), ..ShopSpec::default() })).await?;
    }
    // The last one after a restart.
    for key in ["2", "3", "4"] {
        cluster.settle().await;
        calls.lock().clear();
        rotate(&cluster, &tls, key).await?;
        for name in ["corner", "market"] {
            cluster.wait(&*format!("{name}-copy"), |copy: &Secret| key_in(copy) == key).await;
            let call = format!("{name}: Secret {}/tls-a", cluster.namespace());
            assert!(calls.lock().contains(&call), "{calls:?}");
        }
        if key == "3" {
            running.stop().await?;
            running = cluster.run([copies(&calls)?]).await?;
        }
    }
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_external_object_is_awaited_and_left_alone(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, copies(&Calls::default())?, &corner("a", false, &[])).await?;
    assert!(cluster.get::<Secret>("corner-copy").await?.is_none());
    let tls = cluster.create(&secret("tls-a", "1")?).await?;
    cluster.wait("corner-copy", |copy: &Secret| key_in(copy) == "1").await;
    cluster.wait(&shop, is_ready).await;
    cluster.settle().await;
    let now: Secret = cluster.get("tls-a").await?.ok_or("it is gone")?;
    assert_eq!(now.resource_version(), tls.resource_version());
    running.stop().await
}

/// A Secret is ready as soon as it exists; this slot waits for another key.
fn is_signed(tls: &Secret) -> bool {
    key_in(tls) == "signed"
}

#[kooper::test(start_paused = true)]
async fn a_function_of_the_slot_judges_an_external_object(cluster: Cluster) -> Result<()> {
    let children = declare().child(tls.slot().ready(is_signed)).child(copy.with((tls,))).build()?;
    let handler = children.handler(async || {});
    let running = cluster.run([Shop::controller("shops").install_crd().resync(None).handler(handler).build()?]).await?;
    let tls = cluster.create(&secret("tls-a", "unsigned")?).await?;
    cluster.create(&corner("a", false, &[])).await?;
    cluster.settle().await;
    assert!(cluster.get::<Secret>("corner-copy").await?.is_none());
    rotate(&cluster, &tls, "signed").await?;
    cluster.wait("corner-copy", |copy: &Secret| key_in(copy) == "signed").await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_external_object_that_is_deleted_holds_the_slots_that_take_it(cluster: Cluster) -> Result<()> {
    let tls = cluster.create(&secret("tls-a", "1")?).await?;
    let (running, shop) = run_settled(&cluster, copies(&Calls::default())?, &corner("a", false, &[])).await?;
    let copy: Secret = cluster.get("corner-copy").await?.ok_or("there is no copy")?;
    cluster.delete(&tls).await?;
    let waits = |shop: &Shop| ready(shop).is_some_and(|ready| ready.message.starts_with("waits for tls: "));
    cluster.wait(&shop, waits).await;
    cluster.settle().await;
    let held: Secret = cluster.get("corner-copy").await?.ok_or("it is gone")?;
    assert_eq!(held.resource_version(), copy.resource_version(), "it is neither changed nor pruned");
    cluster.create(&secret("tls-a", "2")?).await?;
    cluster.wait("corner-copy", |copy: &Secret| key_in(copy) == "2").await;
    cluster.wait(&shop, is_ready).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_is_not_called_for_an_external_object_that_it_no_longer_names(cluster: Cluster) -> Result<()> {
    let (calls, before) = (Calls::default(), cluster.create(&secret("tls-a", "1")?).await?);
    let now = cluster.create(&secret("tls-b", "2")?).await?;
    let (running, shop) = run_settled(&cluster, copies(&calls)?, &corner("a", false, &[])).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.wait("corner-copy", |copy: &Secret| key_in(copy) == "2").await;
    cluster.settle().await;
    calls.lock().clear();
    rotate(&cluster, &before, "3").await?;
    cluster.settle().await;
    assert_eq!(*calls.lock(), [""; 0]);
    rotate(&cluster, &now, "4").await?;
    cluster.wait("corner-copy", |copy: &Secret| key_in(copy) == "4").await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_follows_two_external_objects_one_of_them_in_another_namespace(cluster: Cluster) -> Result<()> {
    cluster.create(&with_name::<Namespace>("elsewhere")).await?;
    let mut there = secret("tls", "y")?;
    there.metadata.namespace = Some("elsewhere".to_owned());
    let (here, there) = (cluster.create(&secret("tls-a", "a")?).await?, cluster.create(&there).await?);
    let children = declare().child(tls).child(elsewhere).child(both.with((tls, elsewhere))).build()?;
    let handler = children.handler(async || {});
    let controller = Shop::controller("shops").install_crd().resync(None).handler(handler).build()?;
    let (running, _) = run_settled(&cluster, controller, &corner("a", false, &[])).await?;
    let says = |keys: &'static str| move |both: &ConfigMap| both.data.as_ref().is_some_and(|data| data["keys"] == keys);
    rotate(&cluster, &here, "b").await?;
    cluster.wait("corner-both", says("by")).await;
    rotate(&cluster, &there, "z").await?;
    cluster.wait("corner-both", says("bz")).await;
    running.stop().await
}

/// A copy of another kind: a selection must not hide children.
fn noted(shop: &Shop, tls: &Secret) -> ConfigMap {
    both(shop, tls, &Secret::default())
}

#[kooper::test(start_paused = true)]
async fn external_objects_are_followed_among_those_that_readers_select(cluster: Cluster) -> Result<()> {
    let mut tls_a = secret("tls-a", "1")?;
    tls_a.metadata.labels = Some([("shop".to_owned(), "yes".to_owned())].into());
    let tls_a = cluster.create(&tls_a).await?;
    let children = declare().child(tls).child(noted.with((tls,))).build()?;
    let selecting = Shop::controller("shops").install_crd().resync(None).reads(Secret::all().labels("shop=yes"));
    let controller = selecting.handler(children.handler(async || {})).build()?;
    let (running, _) = run_settled(&cluster, controller, &corner("a", false, &[])).await?;
    rotate(&cluster, &tls_a, "2").await?;
    let is_rotated = |noted: &ConfigMap| noted.data.as_ref().is_some_and(|data| data["keys"] == "2");
    cluster.wait("corner-both", is_rotated).await;
    running.stop().await
}
