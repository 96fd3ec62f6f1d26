//! Caches of some objects, or of their metadata, on a real API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::Controller;
use kooper::capability::{All, PatchBody, Subset};
use kooper::prelude::*;
use kooper::testing::{Cluster, FakeCluster};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::{Value, json};

use crate::fixture::{Log, Start, eventually, run_with, with_name};
use crate::live::{Live, configmap};

fn secret(namespace: &str, name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"password": "open sesame"},
        "metadata": {"namespace": namespace, "name": name, "labels": labels}
    })
}

/// The distinct watches of Secrets in a namespace: their queries.
fn watches(cluster: &ControlPlane, namespace: &str) -> Vec<String> {
    watches_of(cluster, namespace, "secrets")
}

fn watches_of(cluster: &ControlPlane, namespace: &str, resource: &str) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/{resource}?");
    let audit = cluster.audit_log(namespace);
    let requests = audit.iter().filter(|event| event["stage"] == "ResponseStarted");
    let paths = requests.filter_map(|event| event["requestURI"].as_str()?.strip_prefix(&path));
    paths.filter(|query| query.contains("watch=true")).map(str::to_owned).collect()
}

/// The Secrets of the shop.
struct OfShop;

impl Subset for OfShop {
    type Object = Secret;

    fn select(all: All<Secret>) -> All<Secret> {
        all.labels("app=shop")
    }
}

/// Two Secrets by their names.
struct Named;

impl Subset for Named {
    type Object = PartialObjectMeta<Secret>;

    fn select(all: All<Self::Object>) -> All<Self::Object> {
        all.names(["a", "c"])
    }
}

#[test]
fn a_reader_has_the_objects_of_its_subset_and_equal_caches_share_a_watch() {
    let namespace = "narrow-reader";
    let objects = [
        configmap(namespace, "one", "1"),
        secret(namespace, "a", &json!({"app": "shop"})),
        secret(namespace, "b", &json!({"app": "shop"})),
        secret(namespace, "c", &json!({})),
    ];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let log = Log::default();
    let seen = log.clone();
    let handler = move |config: Arc<ConfigMap>,
                        shop: Reader<Secret, OfShop>,
                        named: Reader<PartialObjectMeta<Secret>, Named>,
                        metadata: Reader<PartialObjectMeta<Secret>>| {
        let shop = shop.select(kooper::capability::by::namespace("narrow-reader"));
        let whole = shop.map(|one| one.unwrap()).filter(|one| one.data.is_some()).map(|one| one.name_any());
        let named = named.list().map(|one| one.name().to_owned());
        let all = metadata.list().filter(|one| one.namespace() == Some("narrow-reader")).count();
        seen.note(format!(
            "{}: {} | {} | {all}",
            config.data.as_ref().unwrap()["value"],
            Vec::from_iter(whole).join(" "),
            Vec::from_iter(named).join(" "),
        ));
        async {}
    };
    let controller = Controller::builder::<ConfigMap>("reads")
        .namespaces([namespace])
        .fields("metadata.name=one")
        .resync(None)
        .owns(Secret::all().labels("app==shop"))
        .watches_only(Secret::all().metadata_only(), |_: &PartialObjectMeta<Secret>| None::<ObjectKey>)
        .handler(handler)
        .build()
        .unwrap();
    let own = Controller::builder::<Secret>("own").namespaces([namespace]).labels(" app = shop ").handler(async || {});
    let live = Live::on(cluster, [controller, own.build().unwrap()]);
    log.wait_for("1: a b | a c | 3");
    cluster.must(&["-n", namespace, "label", "secret", "b", "app-"]);
    cluster.must(&["-n", namespace, "label", "secret", "c", "app=shop"]);
    let moved = || {
        cluster.apply([configmap(namespace, "one", &format!("after {}", log.count()))]);
        log.lines().iter().any(|line| line.ends_with(": a c | a c | 3")).then_some(())
    };
    until("the selection changes", moved, || format!("{:#?}", log.lines()));
    live.stop();
    let mut watches = watches(cluster, namespace);
    watches.sort();
    let of = |part: &str| watches.iter().filter(|query| query.contains(part)).count();
    assert_eq!((watches.len(), of("labelSelector=app%3Dshop")), (4, 1), "{watches:#?}");
    assert_eq!((of("metadata.name%3Da"), of("metadata.name%3Dc")), (1, 1), "{watches:#?}");
}

/// Notes which Secrets it reads.
#[kooper::controller(
    resource = ConfigMap,
    fields = "metadata.name=report",
    changed = [labels],
    reads = [(Secret, labels = "app=shop")],
    watches = [(Secret, labels = "app=shop") => every_report],
    main = false
)]
async fn report(report: Arc<ConfigMap>, secrets: Reader<Secret>, configs: Patcher<ConfigMap>) -> Result<()> {
    let mut names: Vec<_> = secrets.list().map(|secret| secret.name().to_owned()).collect();
    names.sort();
    configs.patch_object(&*report, PatchBody::merge(json!({"data": {"secrets": names.join(" ")}}))).await?;
    Ok(())
}

fn every_report(_: &Secret, reports: &Reader<ConfigMap>) -> Vec<ObjectKey> {
    reports.list().map(|report| report.key().clone()).collect()
}

#[kooper::test(report)]
async fn readers_have_the_objects_that_reads_selects(cluster: Cluster) -> Result<()> {
    let namespace = cluster.namespace().to_owned();
    let some = |name, labels: &Value| serde_json::from_value::<Secret>(secret(&namespace, name, labels));
    let a = cluster.create(&some("a", &json!({"app": "shop"}))?).await?;
    let b = cluster.create(&some("b", &json!({}))?).await?;
    let report = serde_json::from_value::<ConfigMap>(configmap(&namespace, "report", "1"))?;
    cluster.create(&report).await?;
    let reads = |names: &'static str| {
        move |report: &ConfigMap| {
            report.data.as_ref().and_then(|data| data.get("secrets")).is_some_and(|now| now == names)
        }
    };
    cluster.wait(&report, reads("a")).await;
    cluster.patch(&b, json!({"metadata": {"labels": {"app": "shop"}}})).await?;
    cluster.wait(&report, reads("a b")).await;
    cluster.patch(&a, json!({"metadata": {"labels": {"app": null}}})).await?;
    cluster.wait(&report, reads("b")).await;
    cluster.delete(&b).await?;
    cluster.wait(&report, reads("")).await;
    Ok(())
}

#[kooper::test]
async fn each_of_several_watches_of_the_own_kind_has_an_age(cluster: Cluster) -> Result<()> {
    let namespace = cluster.namespace().to_owned();
    let of = |name| Controller::builder::<ConfigMap>(name).namespaces([namespace.clone()]).handler(async || {});
    let some = of("some").labels("app=shop").owns(ConfigMap::all()).cleanup("example.com/some", async || {});
    let (retriever, _events) = kooper::retriever::channel(Vec::<ConfigMap>::new())?;
    let other = Controller::builder::<ConfigMap>("other").retriever(retriever).owns(ConfigMap::all().metadata_only());
    let other = other.handler(async || {});
    let running = run_with(Some(cluster.client()), [some.build()?, other.build()?]);
    let ages = |controller: &str| {
        let begin = format!("kooper_watch_last_heard_seconds{{controller=\"{controller}\",watch=\"configmaps");
        let metrics = running.metrics();
        let mut ages: Vec<_> = metrics.lines().filter_map(|line| line.strip_prefix(&begin)?.split_once('"')).collect();
        ages.sort_unstable();
        ages.into_iter().map(|(watch, _)| watch.to_owned()).collect::<Vec<_>>()
    };
    let expected = ["", " (all)", " (metadata; all)"].map(|form| format!("/{namespace}{form}"));
    eventually("each watch has a name of its own", || {
        ages("some") == expected && ages("other") == ["", " (metadata; all)"]
    })
    .await;
    Ok(running.stop().await?)
}

#[tokio::test]
async fn one_call_in_a_test_reads_what_reads_selects() -> Result<()> {
    let cluster = FakeCluster::new();
    for (name, labels) in [("a", json!({"app": "shop"})), ("b", json!({}))] {
        cluster.put(&serde_json::from_value::<Secret>(secret("default", name, &labels))?)?;
    }
    let object = cluster.put(&serde_json::from_value::<ConfigMap>(configmap("default", "report", "1"))?)?;
    let action = cluster.reconcile(&report::controller()?, &ObjectKey::of(&object)).await?;
    assert_eq!(action, Action::done());
    assert_eq!(cluster.sent()[0].body["data"]["secrets"], "a");
    Ok(())
}

#[test]
fn only_metadata_is_fetched_for_partial_objects() {
    let namespace = "narrow-metadata";
    let Some(cluster) = ControlPlane::shared_in(namespace, [secret(namespace, "one", &json!({}))]) else { return };
    let big = "x".repeat(600_000);
    let created = cluster.kubectl_with(&["create", "--filename=-"], &configmap(namespace, "big", &big).to_string());
    assert!(created.success, "{}", created.stderr);
    let log = Log::default();
    let seen = log.clone();
    let live = Controller::builder::<Secret>("metadata")
        .namespaces([namespace])
        .owns(PartialObjectMeta::<ConfigMap>::all())
        .watches(|_: &PartialObjectMeta<ConfigMap>| None::<ObjectKey>)
        .handler(move |configs: Reader<PartialObjectMeta<ConfigMap>>| {
            seen.note(format!(
                "big: {}",
                configs.get(&ObjectKey::namespaced("narrow-metadata", "big")).unwrap().is_some()
            ));
            async {}
        })
        .start_on(cluster);
    log.wait_for("big: true");
    let size = live.metric("kooper_store_bytes{controller=\"metadata\"}");
    assert!(size > 0.0 && size < 50_000.0, "{size} bytes");
    live.stop();
    assert_eq!(watches_of(cluster, namespace, "configmaps").len(), 1);
}

fn child_of(labels: &[(&str, &str)]) -> Secret {
    let mut child: Secret = with_name("child");
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    child.metadata.labels = Some(labels.collect());
    child.string_data = Some([("password".to_owned(), "open sesame".to_owned())].into());
    child
}

/// A controller that applies a child with these labels, and notes the result.
fn applies(
    namespace: &'static str,
    children: All<PartialObjectMeta<Secret>>,
    labels: &'static [(&'static str, &'static str)],
    log: &Log,
) -> Controller {
    let handler = move |parent: Arc<ConfigMap>, call: Call, secrets: OwnedApplier<Secret>, log: State<Log>| async move {
        let applied = secrets.apply_owned(&parent, &child_of(labels)).await;
        let line = match &applied {
            Ok(child) => format!("applied, label {}", child.labels().get("app").is_some()),
            Err(error) => error.to_string(),
        };
        log.note(format!("{}: {line}", call.reasons()));
        applied.map(drop)
    };
    Controller::builder::<ConfigMap>("parents")
        .namespaces([namespace])
        .fields("metadata.name=parent")
        .resync(None)
        .owns(children)
        .state(log.clone())
        .handler(handler)
        .build()
        .unwrap()
}

fn label(cluster: &ControlPlane, namespace: &str, name: &str) -> Value {
    let child = cluster.kubectl(&["-n", namespace, "get", "secret", "child", "--ignore-not-found", "-o", "json"]);
    let child: Value = serde_json::from_str(&child.stdout).unwrap_or_default();
    child["metadata"]["labels"][name].clone()
}

#[test]
fn a_child_that_left_the_selection_of_owns_is_found_and_healed() {
    let namespace = "narrow-heals";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "parent", "1")]) else { return };
    let log = Log::default();
    let children = Secret::all().labels("app=shop, !legacy").metadata_only();
    let live = Live::on(cluster, [applies(namespace, children, &[("app", "shop")], &log)]);
    let has = |name: &'static str, value: Value| {
        until(
            &format!("{name} is {value}"),
            || (label(cluster, namespace, name) == value).then_some(()),
            || format!("{:#?}", log.lines()),
        );
    };
    has("app", "shop".into());
    cluster.must(&["-n", namespace, "label", "secret", "child", "app-"]);
    has("app", "shop".into());
    // A label that is selected against is removed.
    cluster.must(&["-n", namespace, "label", "secret", "child", "legacy=yes"]);
    has("legacy", Value::Null);
    cluster.must(&["-n", namespace, "delete", "secret", "child"]);
    has("app", "shop".into());
    live.stop();
    assert!(!log.lines().iter().any(|line| line.contains("cannot") || line.contains("exists")), "{:#?}", log.lines());
}

#[kooper::test]
async fn a_child_returns_to_that_of_several_selections_which_it_was_applied_for(cluster: Cluster) -> Result<()> {
    let handler = |parent: Arc<ConfigMap>, secrets: OwnedApplier<Secret>| async move {
        secrets.apply_owned(&parent, &child_of(&[("app", "web")])).await.map(drop)
    };
    let controller = Controller::builder::<ConfigMap>("parents").fields("metadata.name=parent").resync(None);
    let controller = controller.owns(Secret::all().labels("app=shop")).owns(Secret::all().labels("app=web, !legacy"));
    let running = cluster.run([controller.handler(handler).build()?]).await?;
    let namespace = cluster.namespace().to_owned();
    cluster.create(&serde_json::from_value::<ConfigMap>(configmap(&namespace, "parent", "1"))?).await?;
    let child = cluster.wait("child", |child: &Secret| child.labels().contains_key("app")).await;
    let child = cluster.patch(&child, json!({"metadata": {"labels": {"legacy": "yes"}}})).await?;
    cluster.wait(&child, |child: &Secret| !child.labels().contains_key("legacy")).await;
    running.stop().await
}

#[test]
fn a_child_that_owns_would_not_select_is_rejected_before_it_is_written() {
    let namespace = "narrow-rejects";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "parent", "1")]) else { return };
    let log = Log::default();
    let children = Secret::all().labels("app=shop").metadata_only();
    let live = Live::on(cluster, [applies(namespace, children, &[("app", "web")], &log)]);
    log.wait_for(
        "initial: Secret `narrow-rejects/child` is not selected by `owns` (labels app=shop): its label `app` is `web`: \
         set the label `app` to `shop`; it was not applied",
    );
    assert_eq!(label(cluster, namespace, "app"), Value::Null);
    live.stop();
}

#[test]
fn an_object_of_another_owner_outside_of_the_selection_is_not_changed() {
    let namespace = "narrow-foreign";
    let objects = [configmap(namespace, "parent", "1"), secret(namespace, "child", &json!({"app": "other"}))];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let log = Log::default();
    let children = Secret::all().labels("app=shop").metadata_only();
    let live = Live::on(cluster, [applies(namespace, children, &[("app", "shop")], &log)]);
    until(
        "the foreign object is found",
        || log.lines().iter().any(|line| line.contains("is not controlled by")).then_some(()),
        || format!("{:#?}", log.lines()),
    );
    assert_eq!(label(cluster, namespace, "app"), "other");
    live.stop();
}

#[test]
fn a_write_does_not_wait_for_a_cache_that_does_not_select_it() {
    let namespace = "narrow-waits";
    let objects = [configmap(namespace, "parent", "1"), secret(namespace, "child", &json!({}))];
    let Some(cluster) = ControlPlane::shared_in(namespace, objects) else { return };
    let log = Log::default();
    let handler = async |call: Call, _shop: Reader<Secret, OfShop>, secrets: Patcher<Secret>, log: State<Log>| {
        let key = ObjectKey::namespaced("narrow-waits", "child");
        let written = json!({"metadata": {"annotations": {"written": log.count().to_string()}}});
        secrets.patch(&key, PatchBody::merge(written)).await?;
        log.note(call.reasons().to_string());
        let again = log.count() < 20;
        Ok::<_, AccessError>(if again { Action::requeue_after(Duration::from_millis(1)) } else { Action::done() })
    };
    let begin = std::time::Instant::now();
    let live = Controller::builder::<ConfigMap>("writes")
        .namespaces([namespace])
        .fields("metadata.name=parent")
        .resync(None)
        .state(log.clone())
        .handler(handler)
        .start_on(cluster);
    until("twenty calls", || (log.count() >= 20).then_some(()), || format!("{:#?}", log.lines()));
    // A key would wait for five seconds for each write that its caches do not show.
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    live.stop();
}
