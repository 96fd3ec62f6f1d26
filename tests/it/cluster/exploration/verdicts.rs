//! Controllers that an exploration has to find, or must not blame.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kooper::testing::{Cluster, Exploration, Explored, Finding, Oracle};
use kooper::{BoxError, Controller, OwnedApplier};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{from_value, json};

use super::runtime;
use super::shop::{Scenario, Shop, ShopStatus, shop, shops};

/// Explores some histories of a controller whose shop is opened.
fn opened(histories: usize, make: impl Fn() -> Controller + Send + Sync + 'static) -> Result<Explored, Finding> {
    explored(Exploration::of(move || Ok(vec![make()])).limit(histories))
}

fn explored(exploration: Exploration) -> Result<Explored, Finding> {
    exploration.seed(1).run(runtime, |cluster: Cluster| Scenario::Opens.pass(cluster))
}

async fn creates_again(creator: Creator<ConfigMap>) -> Result<()> {
    creator.create(&Shop::note("corner-note", &json!({}))).await?;
    Ok(())
}

#[test]
fn calls_that_are_refused_or_panic_in_the_desired_state_are_a_finding_without_any_fault() {
    let found = opened(4, || shops().handler(creates_again).build().unwrap()).unwrap_err();
    assert_eq!(
        found.summary(),
        "Without faults, call 1 after the desired state was reached fails: `create configmaps default/corner-note` is \
         refused with 409"
    );
    assert_eq!(found.oracle(), Oracle::Rest);
    let panics = async |notes: Getter<ConfigMap>, creator: Creator<ConfigMap>| -> Result<()> {
        let note = Shop::note("corner-note", &json!({}));
        assert!(notes.fetch(&ObjectKey::namespaced("default", "corner-note")).await?.is_none());
        creator.create(&note).await?;
        Ok(())
    };
    let found = opened(4, move || shops().handler(panics).build().unwrap()).unwrap_err();
    assert_eq!(found.summary(), "Without faults, call 1 after the desired state was reached fails: it panics");
}

#[test]
fn an_exploration_in_which_nothing_can_go_wrong_is_a_finding() {
    let exploration = Exploration::of(|| Ok(vec![shops().handler(creates_again).build()?]));
    let found = exploration.seed(1).run(runtime, async |_: Cluster| ()).unwrap_err();
    assert!(found.summary().contains("the scenario has no object that they handle"), "{}", found.summary());
}

/// Creates an object with a random name, and remembers that in the process alone.
async fn creates_one(done: State<AtomicBool>, creator: Creator<ConfigMap>) -> Result<()> {
    if !done.swap(true, Ordering::Relaxed) {
        creator.create(&Shop::note(&format!("corner-{}", fastrand::u64(..)), &json!({}))).await?;
    }
    Ok(())
}

#[test]
fn an_object_with_a_random_name_that_is_created_again_after_a_crash_is_a_finding_also_if_it_is_the_only_write() {
    let make = || Ok(vec![shops().state(AtomicBool::new(false)).handler(creates_one).build()?]);
    let found = explored(Exploration::of(make)).unwrap_err();
    assert_eq!(found.oracle(), Oracle::Counts, "{}", found.summary());
}

#[test]
fn calls_that_fail_only_after_a_fault_are_a_finding() {
    let fails =
        async |shop: Arc<Shop>, notes: Getter<ConfigMap>, creator: Creator<ConfigMap>, statuses: StatusWriter<Shop>| {
            let begun = notes.fetch(&shop.key("begun")).await?.is_some();
            if begun && !shop.is_open() {
                return Err(BoxError::from("somebody else has begun"));
            }
            if !begun {
                creator.create(&Shop::note("corner-begun", &json!({}))).await?;
            }
            // A crash in between leaves it half open.
            statuses.apply_status(&shop, &Shop::opened()).await?;
            Ok(())
        };
    let exploration = Exploration::of(move || Ok(vec![shops().handler(fails).build()?])).ignore("status").limit(100);
    let found = explored(exploration).unwrap_err();
    assert!(found.summary().contains(" after the desired state was reached fails"), "{found}");
    // One that fails without faults, too, does what it can.
    let always = async |shop: Arc<Shop>, secrets: OwnedApplier<Secret>| -> Result<()> {
        secrets.apply_owned(&shop, &shop.secret("key")).await?;
        Err("the door does not fit".into())
    };
    let explored = opened(4, move || shops().handler(always).build().unwrap()).unwrap();
    assert_eq!(explored.histories(), 4);
}

#[test]
fn a_deletion_of_nothing_is_no_change() {
    let clears = async |client: Client| -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(client, "default");
        let old = ListParams::default().labels("old=yes");
        secrets.delete_collection(&DeleteParams::default(), &old).await?;
        Ok(())
    };
    opened(4, move || shops().handler(clears).build().unwrap()).unwrap();
}

#[test]
fn an_ignored_field_may_change_with_each_call_and_another_one_may_not() {
    let counts = async |shop: Arc<Shop>, secrets: OwnedApplier<Secret>, statuses: StatusWriter<Shop>| -> Result<()> {
        secrets.apply_owned(&shop, &shop.secret("key")).await?;
        statuses.apply_status(&shop, &ShopStatus { count: shop.seen().count + 1, ..Shop::opened() }).await?;
        Ok(())
    };
    // With a resync it never ends, unless the field is ignored.
    let exploration = |resync| {
        let shops = move || shops().changed([kooper::Changed::Generation]).resync(resync);
        Exploration::of(move || Ok(vec![shops().handler(counts).build()?])).limit(2)
    };
    let often = Some(Duration::from_secs(180));
    explored(exploration(often).ignore("status.count")).unwrap();
    explored(exploration(often).ignore("Shop")).unwrap();
    let found = explored(exploration(None).ignore("status.names")).unwrap_err();
    assert_eq!(found.oracle(), Oracle::Rest, "{found}");
}

#[test]
fn two_writes_that_cancel_each_other_are_found_beside_an_ignored_field() {
    let flips = async |shop: Arc<Shop>, statuses: StatusWriter<Shop>| -> Result<()> {
        for name in ["first", "second"] {
            statuses.apply_status(&shop, &ShopStatus { names: vec![name.to_owned()], ..Shop::opened() }).await?;
        }
        Ok(())
    };
    let make = move || Ok(vec![shops().resync(None).changed([kooper::Changed::Generation]).handler(flips).build()?]);
    let found = explored(Exploration::of(make).ignore("status.count").limit(2)).unwrap_err();
    assert!(found.summary().contains(" still changes an object in call 1 after"), "{found}");
}

fn deployment(shop: &Shop) -> Deployment {
    let labels = json!({"shop": shop.name_any()});
    let image = format!("example.com/shop:{}", shop.spec.size);
    from_value(json!({
        "metadata": {"name": shop.name_any(), "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "shop", "image": image}]}},
        },
    }))
    .unwrap()
}

#[test]
fn templates_of_the_past_are_not_left_over() {
    let applies = async |shop: Arc<Shop>, deployments: OwnedApplier<Deployment>| -> Result<()> {
        deployments.apply_owned(&shop, &deployment(&shop)).await?;
        Ok(())
    };
    let exploration = Exploration::of(move || Ok(vec![shops().handler(applies).build()?])).seed(1).limit(12);
    let exploration = exploration.state(shop("corner", 1, None)).state(shop("corner", 2, None));
    exploration.run(runtime, async |_: Cluster| ()).unwrap();
}

#[test]
fn objects_that_the_scenario_deletes_may_be_handled_again_after_a_crash() {
    let exploration = || {
        let applies = async |shop: Arc<Shop>, secrets: OwnedApplier<Secret>| -> Result<()> {
            secrets.apply_owned(&shop, &shop.secret("key")).await?;
            Ok(())
        };
        Exploration::of(move || Ok(vec![shops().handler(applies).build()?])).seed(1)
    };
    let scenario = async |cluster: Cluster| -> Result<()> {
        let mut all = Vec::new();
        for nth in 0..14 {
            all.push(cluster.create(&shop(&format!("corner-{nth}"), 1, None)).await?);
        }
        cluster.settle().await;
        for shop in &all {
            cluster.delete(shop).await?;
        }
        Ok(())
    };
    exploration().limit(30).run(runtime, scenario).unwrap();
}
