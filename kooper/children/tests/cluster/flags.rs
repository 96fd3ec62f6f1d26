//! Flags of slots.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Secret};
use kooper::ConfigErrorKind;
use kooper::apiserver::faults::Verb;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper_children::readiness::Readiness;
use kooper_children::{Children, SlotExt, declare, wait};
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Shop, corner, fields, is_ready, ready, run_settled, run_with, with_name, writes};

fn named(shop: &Shop, suffix: &str) -> ConfigMap {
    with_name(&format!("{}-{suffix}", shop.name_any()))
}

/// The ConfigMap of the shop's current suffix.
fn current(shop: &Shop) -> ConfigMap {
    named(shop, &shop.spec.config)
}

fn patient(shop: &Shop) -> Result<ConfigMap> {
    if shop.spec.front { Ok(named(shop, "patient")) } else { Err(wait("it has no front")) }
}

/// Two slots want the same child.
fn twin(shop: &Shop) -> ConfigMap {
    current(shop)
}

macro_rules! declared {
    ($($slot:expr),*) => {{
        let children = declare().$(child($slot)).*.build().expect("the slots are right");
        Shop::controller("shops")
            .install_crd()
            .handler(children.handler(async |_: Children<Shop>| {}))
            .cleanup("example.com/shop", children.deletion(async || {}))
            .build()
    }};
}

async fn config(cluster: &Cluster, name: &str) -> Result<Option<ConfigMap>> {
    Ok(cluster.get(name).await?)
}

#[kooper::test(start_paused = true)]
async fn what_is_kept_outlives_its_name_and_its_owner(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, declared!(current.slot().keep())?, &corner("a", false, &[])).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-a").await?.is_some());
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    cluster.settle().await;
    for name in ["corner-a", "corner-b"] {
        let kept = config(&cluster, name).await?.ok_or("it is gone")?;
        assert!(kept.owner_references().is_empty());
    }
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_owner_is_deleted_although_the_cache_has_a_kept_child_that_was_deleted(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, declared!(current.slot().keep())?, &corner("a", false, &[])).await?;
    let frozen = cluster.faults().freeze(Verb::Watch.of("configmaps"));
    cluster.delete(&config(&cluster, "corner-a").await?.ok_or("it is gone")?).await?;
    cluster.delete(&shop).await?;
    cluster.wait_deleted(&shop).await;
    assert!(events(&cluster, "CleanupFailed").await?.is_empty());
    drop(frozen);
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_is_kept_by_its_annotation_unless_the_value_is_false(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, declared!(current)?, &corner("a", false, &[])).await?;
    let keep = async |name: &str, value: &str| -> Result<()> {
        let child = config(&cluster, name).await?.ok_or("it is gone")?;
        cluster.patch(&child, json!({"metadata": {"annotations": {"kooper.rs/keep": value}}})).await?;
        Ok(())
    };
    keep("corner-a", "").await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.settle().await;
    keep("corner-b", "false").await?;
    cluster.patch(&shop, json!({"spec": {"config": "c"}})).await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-a").await?.is_some());
    assert!(config(&cluster, "corner-b").await?.is_none());
    keep("corner-a", "false").await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-a").await?.is_none());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_slot_that_waits_keeps_its_child(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_settled(&cluster, declared!(patient)?, &corner("a", true, &[])).await?;
    assert!(config(&cluster, "corner-patient").await?.is_some());
    cluster.patch(&shop, json!({"spec": {"front": false}})).await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-patient").await?.is_some());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn two_slots_that_want_one_child_do_not_take_it_from_each_other(cluster: Cluster) -> Result<()> {
    let (running, _) = run_settled(&cluster, declared!(current, twin)?, &corner("a", false, &[])).await?;
    let child = config(&cluster, "corner-a").await?.ok_or("there is no ConfigMap")?;
    assert_eq!(child.labels()["kooper.rs/slot"], "current");
    running.stop().await
}

fn none(_: &Shop) -> Option<ConfigMap> {
    None
}

/// Closures from one place have the same type, too.
#[test]
fn a_slot_that_depends_on_one_of_two_with_the_same_function_is_a_mistake() {
    let twins = || declare::<Shop, ()>().child(none.slot().named("one")).child(none.slot().named("two"));
    assert!(twins().build().is_ok(), "no slot depends on them");
    let error = twins().child(current.slot().after(none)).build().unwrap_err();
    let message = "a slot depends on `one` or `two`, whose functions have the same type: write two functions";
    assert_eq!(error.to_string(), message);
}

#[kooper::test(start_paused = true)]
async fn a_handler_cannot_get_the_children_of_one_of_two_slots_with_the_same_function(cluster: Cluster) -> Result<()> {
    let twins = declare().child(none.slot().named("one")).child(none.slot().named("two")).status(fields).build()?;
    let handler = twins.handler(async |children: Children<Shop>| children.get(none).map(drop));
    let running = cluster.run([Shop::controller("shops").install_crd().handler(handler).build()?]).await?;
    let shop = cluster.create(&corner("a", false, &[])).await?;
    let message = "the functions of `one` and `two` have the same type: write two functions";
    cluster.wait(&shop, |shop: &Shop| ready(shop).is_some_and(|ready| ready.message == message)).await;
    running.stop().await
}

/// A type of a user's own for ConfigMaps.
#[derive(Clone, Serialize, Deserialize, Resource)]
#[resource(inherit = ConfigMap)]
struct OwnConfigMap {
    metadata: ObjectMeta,
}

fn own(_: &Shop) -> OwnConfigMap {
    OwnConfigMap { metadata: ObjectMeta::default() }
}

#[test]
fn two_slots_that_return_different_types_of_one_resource_are_a_mistake() {
    let error = declare::<Shop, ()>().child(current).child(own).build().unwrap_err();
    let expected =
        "the slots `current` and `own` return different types for configmaps: return the same type from both";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_slot_that_depends_on_one_that_is_not_declared_is_a_mistake() {
    let error = declare::<Shop, ()>().child(after_current.slot().after(current)).build().unwrap_err();
    let expected = "the slot `after_current` depends on `current`, which is not declared: add it to the children";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_slot_whose_children_are_kept_needs_a_deletion_that_releases_them() -> Result<()> {
    let children = declare::<Shop, ()>().child(patient).child(current.slot().keep()).build()?;
    let begin = || Shop::controller("shops").handler(children.handler(async || {}));
    let error = begin().build().err().ok_or("it is built")?;
    assert_eq!((error.field, error.kind), ("cleanup", ConfigErrorKind::Malformed));
    let parts = ["the slot `current`", "`.cleanup(finalizer, children.deletion(cleanup))`"];
    assert!(parts.iter().all(|part| error.problem.contains(part)), "{error}");
    begin().cleanup("example.com/shop", children.deletion(async || {})).build()?;
    Ok(())
}

/// A ConfigMap is ready as soon as it exists; this slot waits for an entry.
fn is_filled(config: &ConfigMap) -> Readiness {
    match config.data {
        Some(_) => Readiness::Ready,
        None => Readiness::Waiting("it is empty".to_owned()),
    }
}

fn after_current(shop: &Shop) -> ConfigMap {
    named(shop, "after")
}

#[kooper::test(start_paused = true)]
async fn a_function_of_the_slot_judges_its_child(cluster: Cluster) -> Result<()> {
    let slots = declared!(current.slot().ready(is_filled), after_current.slot().after(current));
    let (running, _) = run_settled(&cluster, slots?, &corner("a", false, &[])).await?;
    assert!(config(&cluster, "corner-after").await?.is_none());
    let current = config(&cluster, "corner-a").await?.ok_or("there is no ConfigMap")?;
    cluster.patch(&current, json!({"data": {"open": "yes"}})).await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-after").await?.is_some());
    running.stop().await
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// Each call returns another body.
fn restless(shop: &Shop) -> ConfigMap {
    let data = Some([("call".to_owned(), CALLS.fetch_add(1, Ordering::Relaxed).to_string())].into());
    ConfigMap { data, ..named(shop, "restless") }
}

pub(super) async fn events(cluster: &Cluster, reason: &str) -> Result<Vec<Event>> {
    let mut events: Vec<Event> = cluster.list().await?;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    Ok(events)
}

#[kooper::test(start_paused = true)]
async fn a_child_that_is_another_one_in_each_pass_is_applied_with_pauses(cluster: Cluster) -> Result<()> {
    let (running, shop) = run_with(&cluster, declared!(restless)?, &corner("a", false, &[])).await?;
    for number in 0..10 {
        while CALLS.load(Ordering::Relaxed) <= number {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // It triggers a call, and is no input of the function.
        cluster.patch_status(&shop, json!({"status": {"open": number, "conditions": []}})).await?;
    }
    while events(&cluster, "Unstable").await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(writes(&cluster, &["configmaps"]).len(), 5);
    assert_eq!(events(&cluster, "Unstable").await?.len(), 1);
    running.stop().await
}

/// The names of the ConfigMaps that another client has made.
fn names(_: &ConfigMap, made: &Reader<ConfigMap>) -> Result<Secret> {
    let names: Vec<_> = made.list().map(|one| one.name().to_owned()).collect();
    Ok(serde_json::from_value(json!({"metadata": {"name": "names"}, "stringData": {"names": names.join(",")}}))?)
}

fn copy(owner: &ConfigMap) -> Secret {
    Secret { string_data: owner.data.clone(), ..with_name(&format!("{}-copy", owner.name_any())) }
}

/// The kind of the owner has no generation, and a reader is no input.
#[kooper::test(start_paused = true)]
async fn a_child_that_follows_its_owner_or_a_reader_is_no_loop(cluster: Cluster) -> Result<()> {
    let children = declare().child(copy).child(names).build()?;
    let controller = ConfigMap::controller("copies").labels("copied=yes").handler(children.handler(async || {}));
    let running = cluster.run([controller.build()?]).await?;
    let owner: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "owner", "labels": {"copied": "yes"}}}))?;
    let owner = cluster.create(&owner).await?;
    for number in 0..20 {
        let other: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("other-{number}")}}))?;
        cluster.create(&other).await?;
        cluster.patch(&owner, json!({"data": {"number": number.to_string()}})).await?;
        let text = |secret: &Secret, name: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(name));
            data.map(|data| String::from_utf8_lossy(&data.0).into_owned()).unwrap_or_default()
        };
        cluster.wait("owner-copy", |copy| text(copy, "number") == number.to_string()).await;
        cluster.wait("names", |names| text(names, "names").contains(&format!("other-{number}"))).await;
    }
    assert!(events(&cluster, "Unstable").await?.is_empty());
    running.stop().await
}

fn steady(shop: &Shop) -> ConfigMap {
    ConfigMap { data: Some([("made-by".to_owned(), "us".to_owned())].into()), ..named(shop, "steady") }
}

#[kooper::test(start_paused = true)]
async fn a_child_that_is_changed_after_each_correction_is_corrected_after_a_pause(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(1200));
    let running = cluster.run([declared!(steady)?]).await?;
    cluster.create(&corner("a", false, &[])).await?;
    let is_ours = |config: &ConfigMap| config.data.as_ref().is_some_and(|data| data["made-by"] == "us");
    for _ in 0..3 {
        let child = cluster.wait("corner-steady", is_ours).await;
        cluster.patch(&child, json!({"data": {"made-by": "another"}})).await?;
    }
    let child = cluster.wait("corner-steady", is_ours).await;
    assert!(events(&cluster, "Unstable").await?.is_empty());
    cluster.patch(&child, json!({"data": {"made-by": "another"}})).await?;
    while events(&cluster, "Unstable").await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!is_ours(&config(&cluster, "corner-steady").await?.ok_or("it is gone")?));
    cluster.wait("corner-steady", is_ours).await;
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_adopted_child_that_is_not_wanted_any_more_is_kept_with_an_event(cluster: Cluster) -> Result<()> {
    let shop = corner("a", false, &[]);
    let theirs = cluster.create(&current(&shop)).await?;
    let (running, shop) = run_settled(&cluster, declared!(current.slot().adopt())?, &shop).await?;
    running.stop().await?;
    // A new process applies it again, and does not know how it became a child.
    let running = cluster.run([declared!(current.slot().adopt())?]).await?;
    cluster.settle().await;
    cluster.patch(&theirs, json!({"metadata": {"labels": {"kooper.rs/slot": "other"}}})).await?;
    cluster.settle().await;
    for suffix in ["b", "c"] {
        cluster.patch(&shop, json!({"spec": {"config": suffix}})).await?;
        cluster.settle().await;
    }
    let adopted = config(&cluster, "corner-a").await?.ok_or("it is gone")?;
    assert_eq!((adopted.uid(), &*adopted.labels()["kooper.rs/slot"]), (theirs.uid(), "current"));
    assert!(config(&cluster, "corner-b").await?.is_none(), "the slot has created it");
    let kept = events(&cluster, "Kept").await?;
    let [event] = &*kept else { panic!("{kept:?}") };
    assert_eq!((&event.series, event.type_.as_deref()), (&None, Some("Normal")));
    assert!(event.message.as_deref().is_some_and(|text| text.contains("corner-a")), "{event:?}");
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_child_that_is_created_instead_of_an_adopted_one_is_pruned(cluster: Cluster) -> Result<()> {
    let shop = corner("a", false, &[]);
    let theirs = cluster.create(&current(&shop)).await?;
    let (running, shop) = run_settled(&cluster, declared!(current.slot().adopt())?, &shop).await?;
    cluster.delete(&theirs).await?;
    cluster.settle().await;
    let ours = config(&cluster, "corner-a").await?.ok_or("it is not created again")?;
    assert_ne!(ours.uid(), theirs.uid());
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-a").await?.is_none());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn an_adopted_child_is_pruned_if_the_slot_says_so(cluster: Cluster) -> Result<()> {
    let shop = corner("a", false, &[]);
    cluster.create(&current(&shop)).await?;
    let (running, shop) = run_settled(&cluster, declared!(current.slot().adopt().prune())?, &shop).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.settle().await;
    assert!(config(&cluster, "corner-a").await?.is_none());
    running.stop().await
}

fn claim(shop: &Shop) -> Result<PersistentVolumeClaim> {
    let name = format!("{}-{}", shop.name_any(), shop.spec.config);
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?)
}

#[kooper::test(start_paused = true)]
async fn a_volume_claim_that_is_not_wanted_any_more_is_kept_with_an_event_unless_the_slot_prunes(
    cluster: Cluster,
) -> Result<()> {
    let (running, shop) = run_settled(&cluster, declared!(claim)?, &corner("a", false, &[])).await?;
    cluster.patch(&shop, json!({"spec": {"config": "b"}})).await?;
    cluster.settle().await;
    let before: PersistentVolumeClaim = cluster.get("corner-a").await?.ok_or("it is gone")?;
    assert_eq!(before.metadata.deletion_timestamp, None);
    let kept = events(&cluster, "Kept").await?;
    let [event] = &*kept else { panic!("{kept:?}") };
    assert!(event.message.as_deref().is_some_and(|text| text.contains("corner-a")), "{event:?}");
    running.stop().await?;

    let running = cluster.run([declared!(claim.slot().prune())?]).await?;
    cluster.wait_deleted(&before).await;
    assert!(cluster.get::<PersistentVolumeClaim>("corner-b").await?.is_some());
    running.stop().await
}

#[kooper::test(start_paused = true)]
async fn a_slot_that_does_not_count_leaves_the_owner_ready_whatever_its_state(cluster: Cluster) -> Result<()> {
    let children = declare()
        .child(steady)
        .child(patient.slot().not_ready())
        .child(super::config.slot().not_ready())
        .child(after_current.slot().ready(is_filled).not_ready())
        .status(fields)
        .build()?;
    let states = Arc::new(Mutex::new(Vec::new()));
    let noted = states.clone();
    let handler = children.handler(move |children: Children<Shop>| {
        *noted.lock() = children.states().map(|(_, state)| state.name()).collect();
        async {}
    });
    let running = cluster.run([Shop::controller("shops").install_crd().handler(handler).build()?]).await?;
    let mut shop = corner("a", false, &[]);
    shop.spec.broken = true;
    let shop = cluster.create(&shop).await?;
    cluster.wait(&shop, is_ready).await;
    assert_eq!(*states.lock(), ["ready", "held", "failed", "not_ready"]);
    running.stop().await
}

struct Language {
    code: &'static str,
}

/// A ConfigMap with a word of the state in the language of the settings.
fn translated(shop: &Shop, word: &State<String>, language: &Settings<Language>) -> ConfigMap {
    ConfigMap { data: Some([(language.code.to_owned(), word.to_string())].into()), ..named(shop, "translated") }
}

#[kooper::test(start_paused = true)]
async fn a_child_function_takes_the_state_and_the_settings(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_settings(Language { code: "en" });
    let children = declare().child(translated).build()?;
    let builder = Shop::controller("shops").install_crd().state("open".to_owned());
    let running = cluster.run([builder.handler(children.handler(async || {})).build()?]).await?;
    cluster.create(&corner("a", false, &[])).await?;
    let config: ConfigMap = cluster.wait("corner-translated", |_| true).await;
    assert_eq!(config.data, Some([("en".to_owned(), "open".to_owned())].into()));
    running.stop().await
}

/// Both kinds of deletion: before, and after the children.
#[kooper::test(start_paused = true)]
async fn a_cleanup_gets_the_children_that_exist(cluster: Cluster) -> Result<()> {
    for is_ordered in [false, true] {
        let found = Arc::new(Mutex::new(None));
        let noted = found.clone();
        let cleanup = move |children: Children<Shop>| {
            let child = children.get(current);
            let name = child.map(|child| child.map(|child| child.name_any()));
            *noted.lock() = name.as_ref().ok().cloned();
            async move { name.map(drop) }
        };
        let children = declare().child(current).build()?;
        let builder = Shop::controller("shops").install_crd().handler(children.handler(async || {}));
        let builder = match is_ordered {
            false => builder.cleanup("example.com/shop", cleanup),
            true => builder.cleanup("example.com/shop", children.deletion(cleanup)),
        };
        let running = cluster.run([builder.build()?]).await?;
        let shop = cluster.create(&corner("a", false, &[])).await?;
        cluster.wait("corner-a", |_: &ConfigMap| true).await;
        cluster.settle().await;
        cluster.delete(&shop).await?;
        cluster.wait_deleted(&shop).await;
        assert_eq!(*found.lock(), Some((!is_ordered).then(|| "corner-a".to_owned())));
        running.stop().await?;
    }
    Ok(())
}
