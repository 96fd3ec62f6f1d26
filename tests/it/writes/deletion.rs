//! Objects that are being deleted, and what their controllers do meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::capability::{PatchBody, owned_by};
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::retriever::channel;
use kooper::testing::{Cluster, FakeCluster};
use kooper::{BoxError, Controller};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fixture::{self, Log, events, eventually, run, wait_for_events, with_name};
use crate::program::dry_run::{call, cluster, config as trade_config};

const HOUR: Duration = Duration::from_secs(3600);

/// A ConfigMap for the controllers of this file, which a finalizer keeps.
fn config(name: &str) -> ConfigMap {
    let mut config: ConfigMap = with_name(name);
    config.metadata.labels = Some([("app".to_owned(), "shop".to_owned())].into());
    config.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    config
}

fn secret(name: &str) -> Secret {
    with_name(name)
}

fn shops(name: &str) -> Builder<ConfigMap> {
    // The root certificate of the namespace is another ConfigMap.
    Controller::builder::<ConfigMap>(name).labels("app=shop").resync(Duration::from_secs(60))
}

/// A controller that notes the calls for objects, and whether they are being deleted.
fn noting(name: &str, log: &Log) -> Builder<ConfigMap> {
    shops(name).owns(Secret::all()).handler(log.noting(|config: Arc<ConfigMap>| {
        let state = if config.metadata.deletion_timestamp.is_some() { "terminating" } else { "alive" };
        state.to_owned()
    }))
}

fn terminating(log: &Log) -> usize {
    log.lines().iter().filter(|line| *line == "terminating").count()
}

fn released() -> Value {
    json!({"metadata": {"finalizers": null}})
}

#[kooper::test(start_paused = true)]
async fn an_object_that_is_being_deleted_does_not_reach_a_handler_unless_it_says_so(cluster: Cluster) -> Result<()> {
    let (usual, following) = (Log::default(), Log::default());
    let both = || [noting("usual", &usual).build(), noting("following", &following).while_deleting().build()];
    let running = cluster.run(both().into_iter().collect::<Result<Vec<_>, _>>()?).await?;
    let kept = cluster.create(&config("kept")).await?;
    eventually("both are called", || usual.count() >= 1 && following.count() >= 1).await;
    cluster.delete(&kept).await?;
    eventually("the deletion arrives", || terminating(&following) == 1).await;
    let before = usual.count();

    cluster.patch(&kept, json!({"data": {"color": "red"}})).await?;
    eventually("a change", || terminating(&following) == 2).await;
    cluster.create(&owned_by(&kept, secret("child"))?).await?;
    eventually("an event of a child", || terminating(&following) == 3).await;
    sleep(HOUR).await;
    assert!(terminating(&following) > 50, "an hour has resyncs");
    running.stop().await?;
    let (called, running) =
        (terminating(&following), cluster.run(both().into_iter().collect::<Result<Vec<_>, _>>()?).await?);
    eventually("the first list", || terminating(&following) > called).await;
    assert_eq!((usual.count(), terminating(&usual)), (before, 0));

    // A successor of the same name is another object.
    cluster.patch(&kept, released()).await?;
    cluster.create(&config("kept")).await?;
    eventually("its successor", || usual.count() > before).await;
    running.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_whose_object_is_being_deleted_does_not_fail_any_more() {
    let (retriever, events) = channel([fixture::config("a", "1")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::builder::<ConfigMap>("failing").resync(None).retriever(retriever).handler(move || {
        seen.note("called");
        async { Err::<(), _>(BoxError::from("shut")) }
    });
    let running = run([controller.build().unwrap()]);
    let failing = || running.metric("kooper_failing_keys{controller=\"failing\"}");
    eventually("it fails", || log.count() > 3 && failing() == Some(1.0)).await;
    let mut marked = fixture::config("a", "1");
    marked.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    events.modify(&marked).unwrap();
    eventually("it does not fail", || failing() == Some(0.0)).await;
    let calls = log.count();
    sleep(24 * HOUR).await;
    assert_eq!((log.count(), failing()), (calls, Some(0.0)), "its back-off would have ended");
}

/// Begins a call for an object, deletes the object meanwhile, and lets the call end.
/// Returns how often each of the two controllers has called its handler after an hour.
async fn deleted_during_a_call<F>(cluster: &Cluster, ends: fn(Arc<ConfigMap>, OwnedApplier<Secret>) -> F) -> [usize; 2]
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    let (logs, go) = ([Log::default(), Log::default()], Arc::new(AtomicBool::new(false)));
    let handler = |log: &Log| {
        let (log, go) = (log.clone(), go.clone());
        move |config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>| {
            let go = go.clone();
            log.note("called");
            async move {
                while !go.load(Ordering::SeqCst) {
                    sleep(Duration::from_millis(10)).await;
                }
                ends(config, secrets).await
            }
        }
    };
    let seen = Log::default();
    let controllers = [
        shops("usual").resync(None).handler(handler(&logs[0])).build(),
        shops("following").resync(None).while_deleting().handler(handler(&logs[1])).build(),
        // Objects that it is called for are in the cache, which all of them share.
        noting("seen", &seen).while_deleting().build(),
    ];
    let running = cluster.run(controllers.into_iter().collect::<Result<Vec<_>, _>>().unwrap()).await.unwrap();
    let kept = cluster.create(&config("kept")).await.unwrap();
    eventually("the calls begin", || logs.iter().all(|log| log.count() == 1)).await;
    cluster.delete(&kept).await.unwrap();
    eventually("the deletion arrives", || terminating(&seen) > 0).await;
    go.store(true, Ordering::SeqCst);
    sleep(HOUR).await;
    running.stop().await.unwrap();
    logs.map(|log| log.count())
}

#[kooper::test(start_paused = true)]
async fn a_call_that_fails_because_its_object_is_deleted_meanwhile_does_not_fail(cluster: Cluster) -> Result<()> {
    let [usual, following] = deleted_during_a_call(&cluster, |_, _| async { Err("the shop is closing".into()) }).await;
    assert_eq!(usual, 1, "it is not retried");
    assert!(following > 2, "the same failure is retried where the handler is called for such objects");
    let reporting: Vec<_> = events(&cluster, "ReconcileFailed").await;
    let reporting: Vec<_> = reporting.iter().map(|event| event.reporting_component.as_deref()).collect();
    assert_eq!(reporting, [Some("test/following")]);
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_child_of_an_owner_that_is_deleted_meanwhile_is_not_applied(cluster: Cluster) -> Result<()> {
    let [usual, following] = deleted_during_a_call(&cluster, |config, secrets| async move {
        let error = secrets.apply_owned(&config, &secret("child")).await.unwrap_err();
        assert!(matches!(error, AccessError::OwnerTerminating(_)), "{error}");
        Err(error.into())
    })
    .await;
    assert_eq!(usual, 1);
    assert_eq!(following, 2, "a permanent error: only the deletion calls it again");
    assert!(cluster.get::<Secret>("child").await?.is_none());
    let [event] = &events(&cluster, "ReconcileFailed").await[..] else { panic!("one Event") };
    let message = event.message.as_deref().unwrap_or_default();
    let why = "Secret `default/child` was not applied: its owner, ConfigMap `default/kept`, is being deleted";
    assert!(message.contains(why), "{message}");
    assert_eq!(event.reporting_component.as_deref(), Some("test/following"));
    Ok(())
}

#[tokio::test]
async fn a_single_call_ignores_an_object_that_is_being_deleted() -> Result<()> {
    let (cluster, log) = (FakeCluster::new(), Log::default());
    let mut marked = config("kept");
    marked.metadata.deletion_timestamp = Some(serde_json::from_str("\"2030-01-01T00:00:00Z\"")?);
    let marked = cluster.put(&marked)?;
    let key = ObjectKey::namespaced("default", "kept");
    let ended = cluster.reconcile(&noting("usual", &log).build()?, &key).await?;
    assert_eq!((ended, log.count()), (Action::done(), 0));
    let ended = cluster.reconcile(&noting("following", &log).while_deleting().build()?, &key).await?;
    assert_eq!((ended, log.lines()), (Action::done(), vec!["terminating".to_owned()]));

    let secrets: OwnedApplier<Secret> = cluster.arguments(&marked).take();
    let error = secrets.adopt(&marked, &secret("child")).await.unwrap_err();
    assert!(matches!(error, AccessError::OwnerTerminating(_)), "{error}");
    assert!(cluster.summary().is_empty());

    let both = noting("both", &log).while_deleting().cleanup("example.com/shop", async || {}).build();
    let error = both.expect_err("one of them is called").to_string();
    assert!(error.contains("`cleanup` is called instead of the handler for an object"), "{error}");
    Ok(())
}

/// A controller that sets its finalizer itself, and would remove it.
fn by_hand() -> Builder<ConfigMap> {
    const OWN: &str = "example.com/hand";
    shops("hand").handler(async |config: Arc<ConfigMap>, configs: Patcher<ConfigMap>| {
        let marked = config.metadata.deletion_timestamp.is_some();
        let mut finalizers = config.finalizers().to_vec();
        finalizers.retain(|one| one != OWN);
        if !marked && !config.name_any().starts_with("foreign") {
            finalizers.push(OWN.to_owned());
        }
        if finalizers != config.finalizers() {
            let set = json!({"metadata": {"finalizers": finalizers, "resourceVersion": config.resource_version()}});
            configs.patch_object(&config, PatchBody::merge(set)).await?;
        }
        Ok::<_, BoxError>(())
    })
}

#[kooper::test(start_paused = true)]
async fn an_object_with_a_finalizer_that_its_handler_no_longer_removes_is_reported_once(
    cluster: Cluster,
) -> Result<()> {
    let running = cluster.run([by_hand().build()?]).await?;
    let foreign = cluster.create(&config("foreign")).await?;
    let kept = cluster.create(&config("kept")).await?;
    cluster.wait(&kept, |config: &ConfigMap| config.finalizers().len() == 2).await;
    cluster.delete(&foreign).await?;
    cluster.delete(&kept).await?;
    let event = wait_for_events(&cluster, "FinalizerNotRemoved", |events| !events.is_empty()).await.remove(0);
    assert_eq!(event.involved_object.uid, kept.metadata.uid);
    let message = event.message.as_deref().unwrap_or_default();
    assert!(message.contains("keeps the finalizer example.com/hand, which the controller hand has set"), "{message}");
    cluster.patch(&kept, json!({"data": {"color": "red"}})).await?;
    sleep(HOUR).await;
    let [event] = &events(&cluster, "FinalizerNotRemoved").await[..] else { panic!("one Event") };
    assert_eq!(event.series.as_ref().and_then(|series| series.count).unwrap_or(1), 1, "{event:?}");
    running.stop().await?;

    let running = cluster.run([by_hand().while_deleting().build()?]).await?;
    cluster.patch(&foreign, released()).await?;
    cluster.wait(&kept, |config: &ConfigMap| config.finalizers() == ["example.com/other"]).await;
    cluster.patch(&kept, released()).await?;
    cluster.wait_deleted(&kept).await;
    running.stop().await
}

#[test]
fn check_lists_objects_with_a_finalizer_that_their_handler_no_longer_removes() {
    let Some(cluster) = cluster() else { return };
    let mut config = trade_config("kept");
    config["metadata"]["finalizers"] = json!(["example.com/hand"]);
    let by = |manager: &str| {
        cluster.apply_text(&["--server-side", "--validate=false", "--field-manager", manager], &config.to_string());
    };
    let check = || call(cluster.kubeconfig(), &["check", "--namespace", "trade"]);
    by("somebody");
    let (code, stdout, log) = check();
    assert_eq!(code, Some(0), "{stdout}{log}");
    assert!(!stdout.contains("example.com/hand"), "{stdout}");

    by("rehearsed/configs");
    let (code, stdout, log) = check();
    assert_eq!(code, Some(0), "{stdout}{log}");
    let why = "configmaps trade/kept: the finalizer example.com/hand, which the controller `configs` has set, would keep them";
    assert!(stdout.contains(&format!("note     {why}")), "{stdout}");

    cluster.must(&["-n", "trade", "delete", "configmap", "kept", "--wait=false"]);
    let (code, stdout, log) = check();
    assert_eq!(code, Some(1), "{stdout}{log}");
    let why =
        "configmaps trade/kept: being deleted, and the finalizer example.com/hand, which the controller `configs`";
    assert!(stdout.contains(&format!("missing  {why}")), "{stdout}");
}
