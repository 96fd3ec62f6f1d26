//! Promises of the documentation, kept under faults that a seed draws. `KOOPER_SEEDS` sets how many seeds are tried,
//! and `KOOPER_OBJECTS` how many objects the others have.

mod calls;
mod crashes;
mod deleted_again;
#[cfg(target_os = "linux")]
mod memory;
mod quiet;
mod silence;
mod stops;
mod waves;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::apiserver::faults::{Faults, Verb, WatchEvents};
use kooper::kube::ResourceExt as _;
use kooper::kube::api::{Api, ListParams};
use kooper::testing::Cluster;
use kooper::{Controller, Gone, OwnedApplier, Reader, State};
use serde_json::json;
use tokio::time::sleep;

use crate::fixture::{eventually, with_name};

/// The user that the controllers are.
const CONTROLLER: &str = "system:serviceaccount:default:test";

fn seeds() -> u64 {
    number("KOOPER_SEEDS", 20)
}

fn objects(usual: u64) -> u64 {
    number("KOOPER_OBJECTS", usual)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().expect("a number"))
}

/// Runs on tokio's paused clock: silences of minutes take no time.
fn paused(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

/// The version of an object, by its namespace and name.
type Versions = BTreeMap<String, String>;

/// Observations of a controller of ConfigMaps.
#[derive(Clone, Default)]
struct HandledStates {
    handled: Arc<Mutex<Versions>>,
    reader: Arc<Mutex<Option<Reader<ConfigMap>>>>,
}

impl HandledStates {
    fn controller(&self) -> Controller {
        async fn see(config: Arc<ConfigMap>, reader: Reader<ConfigMap>, seen: State<HandledStates>) {
            *seen.reader.lock() = Some(reader);
            let version = config.resource_version().unwrap_or_default();
            seen.handled.lock().insert(key(&config), version);
        }
        async fn forget(config: Arc<ConfigMap>, _: Gone, seen: State<HandledStates>) {
            seen.handled.lock().remove(&key(&config));
        }
        let builder = Controller::builder::<ConfigMap>("recorder").resync(None).state(self.clone());
        builder.deleted(forget).handler(see).build().unwrap()
    }

    fn handled(&self) -> Versions {
        self.handled.lock().clone()
    }

    fn cached(&self) -> Versions {
        let reader = self.reader.lock().clone();
        let entries = reader.into_iter().flat_map(|reader| reader.list());
        entries.map(|entry| (entry.key().to_string(), entry.version().to_owned())).collect()
    }
}

fn key(config: &ConfigMap) -> String {
    format!("{}/{}", config.namespace().unwrap_or_default(), config.name_any())
}

async fn served(cluster: &Cluster) -> Versions {
    // Each namespace has a ConfigMap from its beginning, and the controller watches all of them.
    let configs = Api::<ConfigMap>::all(cluster.client()).list(&ListParams::default()).await.unwrap();
    configs.iter().map(|config| (key(config), config.resource_version().unwrap_or_default())).collect()
}

fn config(name: &str) -> ConfigMap {
    with_name(name)
}

/// List mode of the controller.
#[derive(Clone, Copy, Debug)]
enum Lists {
    Streaming,
    Plain,
    /// In pages of 500.
    Paged,
}

/// Everything that a watch and a list of the controller may meet, short of losing an event unnoticed.
fn trouble(faults: &Faults) {
    let events = || faults.on_event(WatchEvents::all().of("configmaps").by(CONTROLLER));
    events().with_probability(0.03).close();
    events().with_probability(0.03).reset();
    events().with_probability(0.03).cut();
    events().with_probability(0.03).corrupt();
    events().with_probability(0.03).expire();
    events().with_probability(0.05).repeat();
    events().with_probability(0.05).delay(Duration::from_millis(300));
    events().with_probability(0.01).stall();
    for verb in [Verb::Watch, Verb::List] {
        let requests = || faults.on(verb.of("configmaps").by(CONTROLLER));
        requests().with_probability(0.1).reply(500);
        requests().with_probability(0.1).reply(429);
        requests().with_probability(0.05).reply(410);
        requests().with_probability(0.1).reset();
        requests().with_probability(0.1).cut_answer();
        requests().with_probability(0.1).delay(Duration::from_secs(1));
    }
}

/// A random history of some objects under trouble; in the end all of them are known as they are.
async fn history(seed: u64, lists: Lists) {
    let cluster = Cluster::start().await.unwrap();
    let faults = cluster.faults();
    faults.set_seed(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    if !matches!(lists, Lists::Streaming) {
        faults.on(Verb::Watch.of("configmaps").by(CONTROLLER)).nth(1).reply(422);
    }
    if matches!(lists, Lists::Paged) {
        for number in 0..520 {
            cluster.create(&config(&format!("other-{number}"))).await.unwrap();
        }
    }
    let seen = HandledStates::default();
    let running = cluster.run([seen.controller()]).await.unwrap();
    trouble(&faults);
    for round in 0..120 {
        let name = format!("m{}", random.u8(0..8));
        let there: Option<ConfigMap> = cluster.get(&*name).await.unwrap();
        match there {
            None => drop(cluster.create(&config(&name)).await.unwrap()),
            Some(there) if random.u8(0..3) == 0 => cluster.delete(&there).await.unwrap(),
            Some(there) => drop(cluster.patch(&there, json!({"data": {"round": round.to_string()}})).await.unwrap()),
        }
        if random.u8(0..40) == 0 {
            faults.restart();
        }
        sleep(Duration::from_millis(random.u64(0..2000))).await;
    }
    let last = cluster.apply(&config("last")).await.unwrap();
    faults.clear();

    let expected = served(&cluster).await;
    assert!(expected.contains_key(&key(&last)));
    for _ in 0..3600 {
        if seen.cached() == expected && seen.handled() == expected {
            running.stop().await.unwrap();
            return;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(seen.cached(), expected, "the cache, seed {seed}, {lists:?}");
    assert_eq!(seen.handled(), expected, "what was handled, seed {seed}, {lists:?}");
}

#[test]
fn whatever_a_watch_meets_the_cache_at_rest_is_the_servers_state() {
    for lists in [Lists::Streaming, Lists::Plain] {
        for seed in 0..seeds() {
            paused(history(seed, lists));
        }
    }
    for seed in 0..seeds() / 10 {
        paused(history(seed, Lists::Paged));
    }
}

/// Applies a Secret for each ConfigMap.
fn secrets() -> Controller {
    async fn apply(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> kooper::Result<()> {
        secrets.apply_owned(&config, &with_name(&config.name_any())).await?;
        Ok(())
    }
    Controller::builder::<ConfigMap>("secrets").resync(None).handler(apply).build().unwrap()
}

#[test]
fn a_child_that_is_deleted_while_its_watch_is_down_is_applied_again() {
    paused(async {
        let cluster = Cluster::start().await.unwrap();
        let running = cluster.run([secrets()]).await.unwrap();
        for number in 0..objects(50) {
            cluster.create(&config(&format!("c{number}"))).await.unwrap();
        }
        let mut children = Vec::new();
        for number in 0..objects(50) {
            children.push(cluster.wait(&*format!("c{number}"), |_: &Secret| true).await);
        }
        // The watch ends, and its history is gone before it is re-established.
        let outage = cluster.faults().outage();
        for child in &children {
            cluster.delete(child).await.unwrap();
        }
        drop(outage);
        let cluster = cluster.with_timeout(Duration::from_secs(600));
        for child in &children {
            let again = cluster.wait(child, |secret: &Secret| secret.uid() != child.uid()).await;
            assert_eq!(again.name_any(), child.name_any());
        }
        running.stop().await.unwrap();
    });
}

/// A kind whose Rust type is stricter than its schema.
#[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Part", namespaced, schema = "disabled")]
struct PartSpec {
    size: u32,
}

/// The same kind, as anything may be stored.
#[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Part", root = "LoosePart", namespaced, schema = "disabled")]
struct LoosePartSpec {
    size: serde_json::Value,
}

#[test]
fn one_object_that_does_not_fit_its_type_holds_up_no_other() {
    let parts = objects(2000);
    paused(async move {
        let cluster = Cluster::start().await.unwrap();
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open}}});
        let crd = json!({
            "metadata": {"name": "parts.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "parts", "kind": "Part"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]
            }
        });
        cluster.install_crd(&serde_json::from_value(crd).unwrap()).await.unwrap();
        for number in 0..parts {
            let size = if number == 7 { json!("poison") } else { json!(number) };
            cluster.create(&LoosePart::new(&format!("p{number}"), LoosePartSpec { size })).await.unwrap();
        }
        let faults = cluster.faults();
        // They delay nothing, and count.
        let lists = faults.on(Verb::List.of("parts")).delay(Duration::ZERO);
        let watches = faults.on(Verb::Watch.of("parts")).delay(Duration::ZERO);

        let handled = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
        let seen = handled.clone();
        let note = move |part: Arc<Part>| {
            seen.lock().insert(part.name_any());
            async {}
        };
        let controller = Controller::builder::<Part>("parts").resync(None).handler(note).build().unwrap();
        let running = cluster.run([controller]).await.unwrap();
        eventually("all others are handled", || handled.lock().len() as u64 == parts - 1).await;
        assert!(!handled.lock().contains("p7"));
        let events: Vec<k8s_openapi::api::events::v1::Event> = cluster.list().await.unwrap();
        assert!(
            events.iter().all(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some("p7"))
        );
        assert_eq!((lists.times(), watches.times()), (0, 1));

        // An object that was repaired is handled like any other.
        let there: LoosePart = cluster.get("p7").await.unwrap().unwrap();
        cluster.patch(&there, json!({"spec": {"size": 7}})).await.unwrap();
        eventually("it is handled", || handled.lock().contains("p7")).await;
        assert_eq!((lists.times(), watches.times()), (0, 1));
        running.stop().await.unwrap();
    });
}
