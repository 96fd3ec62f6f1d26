//! Objects that a handler reads, and those that queue its keys.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kooper::Controller;
use kooper::capability::{Reader, by};
use kooper::controller::{Builder, ReconcileAll};
use kooper::prelude::*;
use kooper::retriever::{RetrieveError, channel};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::{Value, json};

use crate::fixture::{Hiding, Log, Start, builder, config, eventually};
use crate::live::{Live, configmap};

fn secret(namespace: &str, name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": namespace, "name": name, "labels": labels}
    })
}

/// A Secret that an object controls.
fn child(namespace: &str, name: &str, owner: (&str, &str, &str), uid: &str) -> Value {
    let (version, kind, owner) = owner;
    let mut child = secret(namespace, name, &json!({}));
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": version, "kind": kind, "name": owner, "uid": uid, "controller": true}]);
    child
}

/// A controller of ConfigMaps that notes why each is handled, one at a time.
fn notes(name: &str, namespaces: &[&str], log: &Log) -> Builder<ConfigMap> {
    Controller::builder::<ConfigMap>(name)
        .namespaces(namespaces.iter().copied())
        .resync(None)
        .workers(1)
        .handler(log.noting(|call: Call| format!("{}: {}", call.key(), call.reasons())))
}

/// Waits until the line was logged this many times.
fn wait_for_times(log: &Log, line: &str, times: usize) {
    let count = || log.lines().iter().filter(|one| *one == line).count();
    until(&format!("{line}, {times} times"), || (count() == times).then_some(()), || format!("{:#?}", log.lines()));
}

fn no_call_was_caused_by(log: &Log, name: &str) {
    assert!(!log.lines().iter().any(|line| line.ends_with(name)), "{:#?}", log.lines());
}

#[test]
fn a_handler_reads_all_objects_from_its_first_call() {
    let namespace = "reads";
    let configs = (0..40).map(|n| {
        let mut config = configmap(namespace, &format!("config-{n}"), &n.to_string());
        config["metadata"]["labels"] = json!({"parity": if n % 2 == 0 { "even" } else { "odd" }});
        config
    });
    let secrets = ["a", "b"].map(|name| secret(namespace, name, &json!({})));
    let Some(cluster) = ControlPlane::shared_in(namespace, configs.chain(secrets)) else { return };
    let log = Log::default();
    let seen = log.clone();
    let live = Controller::builder::<Secret>("reads")
        .namespaces([namespace])
        .resync(None)
        .handler(move |secret: Arc<Secret>, configs: Reader<ConfigMap>| {
            let listed = configs.list().filter(|entry| entry.name().starts_with("config-")).count();
            let even = configs.select(by::label("parity", "even")).filter(Result::is_ok).count();
            let one = configs.get(&ObjectKey::namespaced("reads", "config-7")).unwrap().unwrap();
            seen.note(format!("{}: {listed}, {even}, {}", secret.name_any(), one.data.as_ref().unwrap()["value"]));
            async {}
        })
        .start_on(cluster);
    log.wait_for("a: 40, 20, 7");
    log.wait_for("b: 40, 20, 7");
    cluster.must(&["label", "configmap", "config-7", "--namespace", namespace, "parity=even", "--overwrite"]);
    // A change of the reader's kind causes no call by itself.
    let calls = || log.lines().into_iter().filter(|line| line == "a: 40, 21, 7").count();
    let touched = || {
        cluster.must(&[
            "annotate",
            "secret",
            "a",
            "--namespace",
            namespace,
            "--overwrite",
            &format!("n={}", log.count()),
        ]);
        (calls() > 0).then_some(())
    };
    until("the new label is read", touched, || format!("{:#?}", log.lines()));
    live.stop();
}

#[test]
fn controllers_and_readers_of_the_same_objects_share_one_watch() {
    let namespace = "one-watch";
    let objects = [configmap(namespace, "first", "1"), secret(namespace, "reads", &json!({}))];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let log = Log::default();
    let seen = log.clone();
    let reader = Controller::builder::<Secret>("reads")
        .namespaces([namespace])
        .handler(move |call: Call, configs: Reader<ConfigMap>| {
            seen.note(format!("{}: {}", call.key(), configs.list().any(|entry| entry.name() == "first")));
            async {}
        })
        .build()
        .unwrap();
    let controllers = ["one", "two"].map(|name| notes(name, &[namespace], &log).build().unwrap());
    let live = Live::on(cluster, controllers.into_iter().chain([reader]));
    wait_for_times(&log, "one-watch/first: initial", 2);
    log.wait_for("one-watch/reads: true");
    cluster.apply([configmap(namespace, "first", "2")]);
    wait_for_times(&log, "one-watch/first: modified", 2);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
    let of_ours = |event: &&Value| {
        let path = event["requestURI"].as_str().unwrap_or_default();
        path.starts_with("/api/v1/namespaces/one-watch/configmaps?")
            && path.contains("watch=true")
            && event["stage"] == "ResponseStarted"
    };
    let watches = || cluster.audit_log("one-watch").iter().filter(of_ours).count();
    until("one request", || (watches() == 1).then_some(()), || format!("{} requests", watches()));
}

#[test]
fn a_child_queues_its_controlling_owner_and_no_object_of_another_kind_with_that_name() {
    let namespace = "owns";
    let metadata = json!({"namespace": namespace, "name": "parent"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let objects = [configmap(namespace, "parent", "1"), configmap(namespace, "other", "1"), account];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let uids = ["--namespace", namespace, "--output=jsonpath={.items[*].metadata.uid}"];
    let names = ["get", "configmap/parent", "configmap/other", "serviceaccount/parent"];
    let uids = cluster.must(&[&names[..], &uids].concat());
    let [parent, other, account] = uids.split(' ').collect::<Vec<_>>()[..] else { panic!("{uids}") };
    let log = Log::default();
    let live = notes("owns", &[namespace], &log).owns(Secret::all()).start_on(cluster);
    log.wait_for("owns/parent: initial");
    log.wait_for("owns/other: initial");

    let (ours, others) = (("v1", "ConfigMap", "parent"), ("v1", "ConfigMap", "other"));
    cluster.apply([child(namespace, "child", ours, parent)]);
    log.wait_for("owns/parent: Secret owns/child");
    // Of another kind, of another group, of an absent owner, and of an owner that
    // does not control it.
    let mut uncontrolled = child(namespace, "uncontrolled", ours, parent);
    uncontrolled["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    cluster.apply([
        child(namespace, "of-account", ("v1", "ServiceAccount", "parent"), account),
        child(namespace, "of-group", ("example.com/v1", "ConfigMap", "parent"), parent),
        child(namespace, "of-absent", ("v1", "ConfigMap", "absent"), parent),
        uncontrolled,
        child(namespace, "last", others, other),
    ]);
    log.wait_for("owns/other: Secret owns/last");
    for name in ["of-account", "of-group", "of-absent", "uncontrolled"] {
        no_call_was_caused_by(&log, name);
    }

    // It gets another owner: both are called.
    cluster.apply([child(namespace, "child", others, other)]);
    wait_for_times(&log, "owns/parent: Secret owns/child", 2);
    wait_for_times(&log, "owns/other: Secret owns/child", 1);
    // And the last one when it is deleted.
    cluster.must(&["delete", "secret", "child", "--namespace", namespace]);
    wait_for_times(&log, "owns/other: Secret owns/child", 2);
    assert_eq!(log.lines().iter().filter(|line| *line == "owns/parent: Secret owns/child").count(), 2);
    live.stop();
}

/// The ConfigMap that a Secret's label names.
fn named(secret: &Secret) -> Option<ObjectKey> {
    if secret.name_any() == "bad" {
        panic!("a bad secret");
    }
    let name = secret.labels().get("for")?;
    Some(ObjectKey::new(secret.namespace().as_deref(), name))
}

#[test]
fn a_mapped_object_queues_the_keys_of_its_old_and_its_new_version() {
    let (one, two) = ("maps-one", "maps-two");
    let Some(cluster) = ControlPlane::shared() else { return };
    cluster.create_namespaces([one, two, "maps-else"]);
    // The Secret cannot be mapped, and exists before the start.
    let bad = secret(one, "bad", &json!({"for": "a"}));
    cluster.apply([configmap(one, "a", "1"), configmap(one, "b", "1"), configmap(two, "a", "1"), bad]);
    let log = Log::default();
    let live = notes("maps", &[one, two], &log).watches::<Secret, _, _>(named).start_on(cluster);
    for key in ["maps-one/a", "maps-one/b", "maps-two/a"] {
        log.wait_for(&format!("{key}: initial"));
    }
    cluster.apply([secret(one, "moves", &json!({"for": "a"}))]);
    log.wait_for("maps-one/a: Secret maps-one/moves");
    cluster.apply([secret(one, "moves", &json!({"for": "b"}))]);
    wait_for_times(&log, "maps-one/b: Secret maps-one/moves", 1);
    wait_for_times(&log, "maps-one/a: Secret maps-one/moves", 2);
    // A namespace that is not watched, an absent name, a panic: the next Secret
    // queues its own key.
    cluster.apply([
        secret("maps-else", "elsewhere", &json!({"for": "a"})),
        secret(one, "lost", &json!({"for": "absent"})),
        secret(one, "bad", &json!({"for": "b"})),
        secret(one, "good", &json!({"for": "b"})),
        secret(two, "far", &json!({"for": "a"})),
    ]);
    log.wait_for("maps-one/b: Secret maps-one/good");
    log.wait_for("maps-two/a: Secret maps-two/far");
    for name in ["elsewhere", "lost", "bad"] {
        no_call_was_caused_by(&log, name);
    }
    cluster.must(&["delete", "secret", "moves", "--namespace", one]);
    wait_for_times(&log, "maps-one/b: Secret maps-one/moves", 2);
    live.wait_for_ready(true, &["ok"]);
    live.stop();
}

/// A type of Secrets whose code panics at some of them.
#[derive(Debug, Clone)]
struct Fragile(Secret);

impl<'de> serde::Deserialize<'de> for Fragile {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let secret = Secret::deserialize(deserializer)?;
        assert!(!secret.labels().contains_key("breaks"), "a secret that breaks the type");
        Ok(Self(secret))
    }
}

impl Resource for Fragile {
    type DynamicType = ();
    type Scope = <Secret as Resource>::Scope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        Secret::kind(&())
    }
    fn group((): &()) -> std::borrow::Cow<'_, str> {
        Secret::group(&())
    }
    fn version((): &()) -> std::borrow::Cow<'_, str> {
        Secret::version(&())
    }
    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        Secret::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[test]
fn a_type_that_panics_while_it_is_decoded_loses_no_key_of_another_controller() {
    let namespace = "fragile";
    let names: Vec<_> = (0..40).map(|n| format!("s{n}")).collect();
    let labels = |n: usize| if n.is_multiple_of(4) { json!({"breaks": "yes"}) } else { json!({"for": "a"}) };
    let secrets = names.iter().enumerate().map(|(n, name)| secret(namespace, name, &labels(n)));
    let objects = [configmap(namespace, "a", "1")].into_iter().chain(secrets);
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let (log, seen) = (Log::default(), Log::default());
    let map = |secret: &Fragile| {
        let name = secret.0.labels().get("for")?;
        Some(ObjectKey::new(secret.0.namespace().as_deref(), name))
    };
    let fragile = notes("fragile", &[namespace], &log).watches::<Fragile, _, _>(map).build().unwrap();
    let secrets = Controller::builder::<Secret>("secrets")
        .namespaces([namespace])
        .handler(seen.noting(|call: Call| call.key().name().to_owned()));
    let live = Live::on(cluster, [fragile, secrets.build().unwrap()]);
    for name in &names {
        seen.wait_for(name);
    }
    cluster.apply([
        secret(namespace, "later", &json!({"breaks": "yes"})),
        secret(namespace, "last", &json!({"for": "a"})),
    ]);
    log.wait_for("fragile/a: Secret fragile/last");
    seen.wait_for("later");
    live.stop();
}

#[test]
fn a_map_function_can_read_the_cache() {
    fn users(secret: &Secret, configs: &Reader<ConfigMap>) -> Vec<ObjectKey> {
        let users = configs.select(by::label("uses", secret.name_any())).map(Result::unwrap);
        users.map(|config| ObjectKey::new(config.namespace().as_deref(), &config.name_any())).collect()
    }
    let namespace = "map-reads";
    let configs = ["a", "b", "c"].map(|name| {
        let mut config = configmap(namespace, name, "1");
        config["metadata"]["labels"] = json!({"uses": if name == "c" { "other" } else { "password" }});
        config
    });
    let Some(cluster) = ControlPlane::shared_in(namespace, configs) else { return };
    let log = Log::default();
    // With a selector the controller's own cache is another one.
    let controller = notes("map-reads", &[namespace], &log).labels("uses").watches::<Secret, _, _>(users);
    let live = controller.start_on(cluster);
    for name in ["a", "b", "c"] {
        log.wait_for(&format!("map-reads/{name}: initial"));
    }
    cluster.apply([secret(namespace, "password", &json!({})), secret(namespace, "other", &json!({}))]);
    log.wait_for("map-reads/a: Secret map-reads/password");
    log.wait_for("map-reads/b: Secret map-reads/password");
    log.wait_for("map-reads/c: Secret map-reads/other");
    assert!(!log.lines().contains(&"map-reads/c: Secret map-reads/password".to_owned()));
    live.stop();
}

#[tokio::test(start_paused = true)]
async fn an_external_key_calls_the_handler_if_its_object_exists() {
    let (retriever, _events) = channel([config("a", "1"), config("b", "1")]).unwrap();
    let (sender, mut keys) = tokio::sync::mpsc::unbounded_channel();
    let log = Log::default();
    let _running = notes("outside", &[], &log)
        .retriever(retriever)
        .source(futures_util::stream::poll_fn(move |context| keys.poll_recv(context)))
        .start();
    eventually("the first list", || log.count() == 2).await;
    for name in ["absent", "b", "absent", "a"] {
        sender.send(ObjectKey::namespaced("test", name)).unwrap();
    }
    eventually("both", || log.count() == 4).await;
    assert_eq!(log.lines()[2..], ["test/b: external", "test/a: external"]);
}

#[tokio::test(start_paused = true)]
async fn a_trigger_for_all_calls_the_handler_once_for_each_object_and_keys_come_first() {
    let (retriever, _events) = channel(["a", "b", "c"].map(|name| config(name, "1"))).unwrap();
    let (all, mut triggers) = tokio::sync::mpsc::unbounded_channel();
    let (sender, mut keys) = tokio::sync::mpsc::unbounded_channel();
    let log = Log::default();
    let noted = log.clone();
    let slow = move |call: Call| {
        noted.note(format!("{}: {}", call.key(), call.reasons()));
        tokio::time::sleep(Duration::from_secs(1))
    };
    let _running = builder("all")
        .workers(1)
        .retriever(retriever)
        .source(ReconcileAll(futures_util::stream::poll_fn(move |context| triggers.poll_recv(context))))
        .source(futures_util::stream::poll_fn(move |context| keys.poll_recv(context)))
        .handler(slow)
        .start();
    let wait = |seconds| tokio::time::sleep(Duration::from_secs_f64(seconds));
    wait(10.0).await;
    assert_eq!(log.count(), 3, "{:?}", log.lines());
    // One is being called meanwhile, so it is called again.
    sender.send(ObjectKey::namespaced("test", "a")).unwrap();
    wait(0.1).await;
    all.send(()).unwrap();
    all.send(()).unwrap();
    wait(0.1).await;
    sender.send(ObjectKey::namespaced("test", "c")).unwrap();
    wait(10.0).await;
    let external = ["test/a: external", "test/c: external", "test/b: external", "test/a: external"];
    assert_eq!(log.lines()[3..], external);
}

/// A controller that notes calls of its handler and of `deleted`.
fn mourns(log: &Log) -> Builder<ConfigMap> {
    let deletions = log.clone();
    let value = |config: &ConfigMap| config.data.as_ref().unwrap()["value"].clone();
    Controller::builder::<ConfigMap>("mourns")
        .resync(None)
        .handler(log.noting(move |config: Arc<ConfigMap>| format!("handler: {} {}", config.name_any(), value(&config))))
        .deleted(move |config: Arc<ConfigMap>, gone: Gone| {
            deletions.note(format!("deleted: {} {} {gone:?}", config.name_any(), value(&config)));
            async {}
        })
}

#[tokio::test(start_paused = true)]
async fn deleted_is_called_once_with_the_last_state_and_before_the_successor() {
    let of = |uid: &str, value| {
        let mut config = config("a", value);
        config.metadata.uid = Some(uid.to_owned());
        config
    };
    let (retriever, events) = channel([of("one", "1")]).unwrap();
    let log = Log::default();
    let _running = mourns(&log).retriever(retriever).start();
    eventually("the first list", || log.count() == 1).await;
    let successor = of("another", "3");
    events.modify(&of("one", "2")).unwrap();
    // It changed once more when it was deleted, and the deletion is observed twice.
    events.delete(&of("one", "last")).unwrap();
    events.delete(&of("one", "last")).unwrap();
    events.add(&successor).unwrap();
    eventually("the successor", || log.lines().contains(&"handler: a 3".to_owned())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.lines(), ["handler: a 1", "deleted: a last Deleted", "handler: a 3"]);
    events.delete(&successor).unwrap();
    eventually("its end", || log.count() == 4).await;
    assert_eq!(log.lines()[3], "deleted: a 3 Deleted");
}

#[test]
fn deleted_distinguishes_objects_that_left_the_selector() {
    let namespace = "mourns";
    let configs = ["leaves", "deleted"].map(|name| {
        let mut config = configmap(namespace, name, name);
        config["metadata"]["labels"] = json!({"app": "shop"});
        config
    });
    let Some(cluster) = ControlPlane::shared_in(namespace, configs) else { return };
    let log = Log::default();
    let live = mourns(&log).namespaces([namespace]).labels("app=shop").start_on(cluster);
    log.wait_for("handler: leaves leaves");
    log.wait_for("handler: deleted deleted");
    cluster.must(&["label", "configmap", "leaves", "--namespace", namespace, "app=none", "--overwrite"]);
    log.wait_for("deleted: leaves leaves Left");
    // An object that has left the selector causes no further calls.
    cluster.must(&["delete", "configmap", "leaves", "deleted", "--namespace", namespace]);
    log.wait_for("deleted: deleted deleted Deleted");
    live.stop();
    let deletions: Vec<_> = log.lines().into_iter().filter(|line| line.starts_with("deleted")).collect();
    assert_eq!(deletions, ["deleted: leaves leaves Left", "deleted: deleted deleted Deleted"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_is_called_with_the_last_known_state_after_a_gap() {
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let log = Log::default();
    let _running = mourns(&log).retriever(Hiding(retriever, "b")).start();
    events.add(&config("b", "1")).unwrap();
    events.modify(&config("b", "2")).unwrap();
    eventually("b", || log.lines().contains(&"handler: b 2".to_owned())).await;
    // The list that follows has `a` alone.
    events.send(Err(RetrieveError::Expired("too old".to_owned())));
    eventually("the end of b", || log.lines().contains(&"deleted: b 2 Unknown".to_owned())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.lines().iter().filter(|line| line.starts_with("deleted")).count(), 1);
}
