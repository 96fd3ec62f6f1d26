//! Compressed caches: the size of one, which the metrics publish, says nothing about
//! secrets to who may write an object into it.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::capability::{All, Subset};
use kooper::prelude::*;
use kooper::retriever::channel;
use kooper::testing::Cluster;
use kooper::{Controller, KindExt};
use kube::core::metadata::PartialObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::fixture::{Running, eventually, run, run_with};

const TOKEN: &str = "7d0e4b91a6c3f258";
const DIGITS: &str = "0123456789abcdef";

/// The size of the cache of the controller `guessed`.
fn published(running: &Running) -> f64 {
    running.metric("kooper_store_bytes{controller=\"guessed\"}").unwrap()
}

/// An object with a token.
fn object<K: Kind>(namespace: &str, name: &str, token: &str, owners: &Value) -> K {
    // Too long to be stored as it is, and nothing in it can be compressed.
    let noise = "mQz8RkYw1VtJh5NxLp3GsUe7BcAo9DfKi2ZrTj6WnXy4HlEuMb0PvOgCqSdIaFz5tGw8Jy1Ku6Rm3Lh7Qx2Nc9Vp4BsEoTi\
                 DfXjZkUwHrMlYgAeSnPvCqObIa0W8d5T1z7K3x9J6f2R4y";
    let metadata = json!({
        "namespace": namespace, "name": name, "annotations": {"token": token, "z": noise}, "ownerReferences": owners,
    });
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

/// Result of the attack: its guess, and the sizes that it saw.
struct Got {
    guess: String,
    sizes: BTreeSet<u64>,
}

/// Guesses the token of objects in another namespace, digit by digit: of objects that
/// begin as the token does, the one with the next digit is the shortest.
async fn attack<K>(builder: kooper::controller::Builder<K, K>, victims: Vec<K>, owners: &Value) -> Got
where
    K: Kind + Serialize,
{
    let seen = Arc::new(Mutex::new(String::new()));
    let noted = seen.clone();
    let (retriever, events) = channel(victims).unwrap();
    let handler = move |object: Arc<K>| {
        *noted.lock() = object.meta().annotations.as_ref().unwrap()["token"].clone();
        async {}
    };
    let running = run([builder.resync(None).retriever(retriever).handler(handler).build().unwrap()]);
    eventually("the list", || !seen.lock().is_empty()).await;
    let (mut guess, mut sizes) = (String::new(), BTreeSet::new());
    for _ in 0..TOKEN.len() {
        let mut tried = Vec::new();
        for digit in DIGITS.chars() {
            let token = format!("{guess}{digit}-");
            events.modify(&object::<K>("attacker", "guess", &token, owners)).unwrap();
            eventually("the guess is in the cache", || *seen.lock() == token).await;
            let size = published(&running) as u64;
            sizes.insert(size);
            tried.push((size, digit));
        }
        guess.push(tried.iter().min().unwrap().1);
    }
    running.stop().await.unwrap();
    Got { guess, sizes }
}

/// One object, which is the first of its cache.
async fn attack_first<K: Kind + Serialize>(builder: kooper::controller::Builder<K, K>) -> Got {
    attack(builder, vec![object("a-victim", "first", TOKEN, &json!([]))], &json!([])).await
}

/// Children of one owner, whose references the attacker copies.
async fn attack_siblings<K: Kind + Serialize>(builder: kooper::controller::Builder<K, K>) -> Got {
    let owners = json!([{"apiVersion": "v1", "kind": "Shop", "name": "shop", "uid": "8d0c"}]);
    let child = |n: usize| {
        let other = TOKEN.chars().rev().cycle().skip(n).take(TOKEN.len()).collect::<String>();
        object("a-victim", &format!("child-{n}"), if n == 7 { TOKEN } else { &other }, &owners)
    };
    attack(builder, (0..8).map(child).collect(), &owners).await
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_cache_says_what_objects_contain_unless_they_are_secret() {
    let [first, siblings] =
        [attack_first(ConfigMap::controller("guessed")).await, attack_siblings(ConfigMap::controller("guessed")).await];
    assert_eq!([&*first.guess, &*siblings.guess], [TOKEN; 2], "the attack itself works");
    for got in [
        attack_first(Secret::controller("guessed")).await,
        attack_siblings(Secret::controller("guessed")).await,
        attack_first(ConfigMap::controller("guessed").secret()).await,
        attack_siblings(ConfigMap::controller("guessed").secret()).await,
    ] {
        assert_ne!(got.guess, TOKEN);
        assert_eq!(got.sizes.len(), 1, "no guess differs from another: {:?}", got.sizes);
    }
}

/// The ConfigMaps, which hold secrets here.
struct Tokens;

impl Subset for Tokens {
    type Object = ConfigMap;

    fn select(all: All<ConfigMap>) -> All<ConfigMap> {
        all.secret()
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_marked_anywhere_is_secret_in_every_cache_of_the_program() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let configs = kube::Api::<ConfigMap>::namespaced(client.clone(), "default");
    let token = object::<ConfigMap>("default", "token", TOKEN, &json!([]));
    configs.create(&Default::default(), &token).await.unwrap();
    let plain = || ConfigMap::controller("guessed").handler(async |_: Reader<PartialObjectMeta<ConfigMap>>| {});
    let other = || Controller::builder::<Secret>("other");
    let marked = [
        other().owns(ConfigMap::all().secret()).handler(async || {}).build().unwrap(),
        other()
            .owns(ConfigMap::all().labels("app=shop").secret().metadata_only())
            .handler(async || {})
            .build()
            .unwrap(),
        other()
            .watches_only(ConfigMap::all().secret(), |_: &ConfigMap| None::<ObjectKey>)
            .handler(async || {})
            .build()
            .unwrap(),
        other().handler(async |_: Reader<ConfigMap, Tokens>| {}).build().unwrap(),
    ];
    for marked in marked.into_iter().map(Some).chain([None]) {
        let is_marked = marked.is_some();
        let running = run_with(Some(client.clone()), [plain().build().unwrap()].into_iter().chain(marked));
        let objects = || running.metric("kooper_store_objects{controller=\"guessed\"}");
        eventually("both caches have the object", || objects().is_some_and(|objects| objects >= 2.0)).await;
        assert_eq!(published(&running) == 0.0, is_marked, "{} bytes", published(&running));
        running.stop().await.unwrap();
    }
}
