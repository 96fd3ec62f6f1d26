//! `run --dry-run`: nothing is written, and everything that would be is shown.

use parking_lot::{Mutex, MutexGuard};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use kooper_apiserver::ApiServer;
use kooper_tests::control_plane::{ControlPlane, Output};
use kooper_tests::dev::Home;
use kooper_tests::process::run;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rehearsed");

/// The exit code, stdout and stderr of the program.
pub(crate) fn call(kubeconfig: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(PROGRAM);
    let Output { code, stdout, stderr, .. } = run(command.args(args).arg("--kubeconfig").arg(kubeconfig));
    (code, stdout, stderr)
}

pub(crate) fn shop(name: &str, greeting: &str, fails: bool) -> Value {
    json!({
        "apiVersion": "rehearsed.example.com/v1", "kind": "Shop", "spec": {"greeting": greeting, "fails": fails},
        "metadata": {"namespace": "trade", "name": name},
    })
}

pub(crate) fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "trade", "name": name}})
}

/// A cluster with the CRD, a shop without children, one whose handler fails, and one that is being deleted. One test
/// at a time has it.
pub(crate) fn cluster() -> Option<MutexGuard<'static, ControlPlane>> {
    // Statics are never dropped, so the watchdog stops this one.
    static CLUSTER: OnceLock<Option<Mutex<ControlPlane>>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| prepared().map(Mutex::new)).as_ref()?.lock();
    // A test before may have changed these, also if it has failed.
    cluster.apply([shop("tea", "hello", false)]);
    let released = r#"{"metadata":{"finalizers":null}}"#;
    cluster.kubectl(&["-n", "trade", "patch", "configmap", "kept", "--type=merge", "--patch", released]);
    cluster.must(&["-n", "trade", "delete", "secret/init", "configmap/kept", "--ignore-not-found"]);
    Some(cluster)
}

fn prepared() -> Option<ControlPlane> {
    let cluster = ControlPlane::start()?;
    let (_, crd, _) = call(cluster.kubeconfig(), &["crd"]);
    cluster.apply_text(&["--server-side"], &crd);
    cluster.must(&["wait", "--for=condition=established", "crd", "shops.rehearsed.example.com", "--timeout=60s"]);
    let mut old = shop("old", "bye", false);
    old["metadata"]["finalizers"] = json!(["rehearsed.example.com/shop"]);
    let metadata = json!({"namespace": "trade", "name": "keeper", "labels": {"locked": "yes"}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let shops = [shop("tea", "hello", false), shop("broken", "", true), old];
    cluster.create_namespace("trade", shops.into_iter().chain([config("stale"), config("old-config"), account]));
    cluster.must(&["-n", "trade", "delete", "shop", "old", "--wait=false"]);
    Some(cluster)
}

/// Everything that the program could have changed.
pub(crate) fn state(cluster: &ControlPlane) -> String {
    cluster.must(&["get", "shops,configmaps,secrets,events,leases,crds", "--all-namespaces", "--output=name"])
        + &cluster.must(&["-n", "trade", "get", "shops,configmaps,secrets", "--output=yaml"])
}

#[test]
fn nothing_is_written_and_every_write_is_shown() {
    let Some(cluster) = cluster() else { return };
    let (before, requests) = (state(&cluster), cluster.audit_log("").len());
    let (code, stdout, stderr) = call(cluster.kubeconfig(), &["run", "--dry-run"]);
    assert_eq!(code, Some(1), "one handler fails: {stdout}{stderr}");
    assert_eq!(state(&cluster), before);
    for line in [
        "create    configmaps trade/tea-config\n",
        "create    configmaps trade/tea-config-copy\n",
        "create    secrets trade/tea-secret\n",
        "create    secrets trade/init\n",
        "create    secrets trade/keeper-key (slot key)\n",
        "create    secrets trade/keeper-lock (slot lock)\n",
        "change    shops.rehearsed.example.com trade/tea: metadata.finalizers, status\n",
        "change    shops.rehearsed.example.com trade/broken: metadata.finalizers\n",
        "delete    configmaps trade/stale\n",
        "delete    configmaps trade/old-config\n",
        "delete    shops.rehearsed.example.com trade/old\n",
        "failed    shops: trade/broken: the handler failed: the door is stuck\n",
        "4 objects handled, 1 failed; 6 would be created, 2 changed, 3 deleted, and 2 Events recorded\n",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}{stderr}");
    }
    assert_eq!(stderr.matches("opens tea").count(), 1, "each object is handled once: {stderr}");
    assert!(stderr.contains("dry_run=true"), "{stderr}");
    assert!(stderr.contains("dry run: `init` of the controller `shops` is called"), "{stderr}");
    assert!(stderr.contains("dry run: the controller `configs` takes `Client`"), "{stderr}");
    assert!(!stdout.contains("canary") && !stderr.contains("canary"), "{stdout}{stderr}");

    // A test before may have run `check`, which creates reviews of access.
    let writes: Vec<_> = cluster.audit_log("").into_iter().skip(requests).filter(is_write).collect();
    assert!(writes.len() > 10, "{writes:#?}");
    for write in writes {
        let uri = write["requestURI"].as_str().unwrap();
        assert!(uri.contains("dryRun=All"), "{uri}");
    }
    // Twice is the same.
    let (_, again, _) = call(cluster.kubeconfig(), &["--dry-run"]);
    assert_eq!(again, stdout);
    assert_eq!(state(&cluster), before);
}

/// Returns whether an audit event is a request of the program that could change something.
fn is_write(event: &Value) -> bool {
    let agent = event["userAgent"].as_str().unwrap_or_default();
    agent.starts_with("rehearsed ") && !["get", "list", "watch"].contains(&event["verb"].as_str().unwrap_or_default())
}

#[test]
fn a_dry_run_shows_what_a_run_does() {
    let Some(cluster) = cluster() else { return };
    let (_, predicted, stderr) = call(cluster.kubeconfig(), &["--dry-run"]);
    let status = |text: &str| text.contains("hello in the cache, fetched true, twice true");
    assert!(predicted.contains("trade/tea: metadata.finalizers, status"), "{predicted}{stderr}");
    let (code, diff, stderr) = {
        let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "predicted");
        call(cluster.kubeconfig(), &["diff", "-f", &home.file("tea.json", &shop("tea", "hello", false).to_string())])
    };
    assert_eq!(code, Some(1), "{diff}{stderr}");
    assert!(status(&diff), "reads have the results of writes: {diff}");
}

#[test]
fn an_unreachable_server_and_a_wrong_command_end_at_once() {
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "unreachable");
    let kubeconfig = home.file(
        "config",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n\
         users: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n",
    );
    let (code, stdout, stderr) = call(Path::new(&kubeconfig), &["--dry-run"]);
    assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("the API server http://127.0.0.1:1 cannot be reached"), "{stderr}");
    for command in ["crd", "check"] {
        let (code, _, stderr) = call(Path::new(&kubeconfig), &[command, "--dry-run"]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(&format!("`{command}` has no `--dry-run`: remove it")), "{stderr}");
    }
}

/// Applies an object to the embedded server.
async fn apply(client: &Client, object: Value) {
    let (group, version) = object["apiVersion"].as_str().unwrap().rsplit_once('/').unwrap_or(("", "v1"));
    let kind = object["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
}

/// The resource version of the whole store.
async fn version(client: &Client) -> String {
    let all: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    all.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_stores_nothing() {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let home = Home::new(env!("CARGO_TARGET_TMPDIR"), "embedded");
    let kubeconfig = home.file("config", &server.kubeconfig());
    let crd = call(Path::new(&kubeconfig), &["crd"]).1;
    apply(&client, serde_saphyr::from_str(&crd).unwrap()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trade"}});
    apply(&client, namespace).await;
    for object in [shop("tea", "hello", false), config("stale")] {
        apply(&client, object).await;
    }
    let before = version(&client).await;
    let path = kubeconfig.clone();
    let (code, stdout, stderr) =
        tokio::task::spawn_blocking(move || call(Path::new(&path), &["--dry-run"])).await.unwrap();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(
        stdout.contains("2 objects handled, 0 failed; 4 would be created, 1 changed, 1 deleted"),
        "{stdout}{stderr}"
    );
    assert_eq!(version(&client).await, before, "the server has stored nothing: {stdout}");
    // A write is one more version: the comparison sees it.
    let created: DynamicObject = serde_json::from_value(config("one")).unwrap();
    let configs: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        "trade",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")),
    );
    assert_eq!(configs.create(&PostParams::default(), &created).await.unwrap().name_any(), "one");
    assert_ne!(version(&client).await, before);
}
