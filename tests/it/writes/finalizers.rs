//! Cleanup before an object is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::{BoxError, Call, Controller};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::{eventually, until};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::fixture::Log;
use crate::live::{Live, configmap};

const FINALIZER: &str = "tests.example.com/cleanup";

/// Notes a call of the handler or of `cleanup`.
fn note(calls: &Log, what: &str, object: &ConfigMap) {
    calls.note(format!("{what} {} [{}]", object.name_any(), object.finalizers().join(" ")));
}

fn builder(namespace: &str, calls: &Log) -> Builder<ConfigMap, ConfigMap, Log> {
    Controller::builder::<ConfigMap>("keeper")
        .namespaces([namespace])
        .resync(None)
        .state(calls.clone())
        .handler(async |object: Arc<ConfigMap>, calls: State<Log>| note(&calls, "handle", &object))
        .cleanup(FINALIZER, async |object: Arc<ConfigMap>, calls: State<Log>| note(&calls, "cleanup", &object))
}

fn start(cluster: &ControlPlane, controller: Builder<ConfigMap, ConfigMap, Log>) -> Live {
    Live::on(cluster, [controller.build().unwrap()])
}

fn finalizers(cluster: &ControlPlane, namespace: &str, name: &str) -> String {
    let path = "jsonpath={.metadata.finalizers[*]}";
    cluster.must(&["-n", namespace, "get", "configmap", name, "--output", path])
}

/// Removes all finalizers.
fn release(cluster: &ControlPlane, namespace: &str, names: &[&str]) {
    let patch = ["-n", namespace, "patch", "configmap", "--type=merge", r#"--patch={"metadata":{"finalizers":null}}"#];
    cluster.must(&[&patch[..], names].concat());
}

/// Deletes ConfigMaps, and waits for their end unless a flag says otherwise.
fn delete(cluster: &ControlPlane, namespace: &str, args: &[&str]) {
    cluster.must(&[&["-n", namespace, "delete", "configmap", "--timeout=60s"], args].concat());
}

fn marked(namespace: &str, name: &str, finalizers: &[&str], labels: &[(&str, &str)]) -> serde_json::Value {
    let mut object = configmap(namespace, name, "1");
    object["metadata"]["finalizers"] = finalizers.into();
    object["metadata"]["labels"] = serde_json::to_value(labels.iter().copied().collect::<BTreeMap<_, _>>()).unwrap();
    object
}

#[test]
fn the_finalizer_is_set_before_the_first_call_and_removed_after_cleanup_and_others_are_kept() {
    let namespace = "finalizers-first";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let calls = Log::default();
    let live = start(cluster, builder(namespace, &calls));

    cluster.apply([marked(namespace, "a", &["example.com/other"], &[])]);
    calls.wait_for(&format!("handle a [example.com/other {FINALIZER}]"));
    delete(cluster, namespace, &["a", "--wait=false"]);
    calls.wait_for(&format!("cleanup a [example.com/other {FINALIZER}]"));
    eventually("only the other finalizer is left", || finalizers(cluster, namespace, "a") == "example.com/other");
    release(cluster, namespace, &["a"]);
    cluster.must(&["-n", namespace, "wait", "--for=delete", "configmap/a", "--timeout=60s"]);
    live.stop();
    // Neither the write of the finalizer nor the deletion of the cleaned-up object called the handler.
    let calls = calls.lines();
    assert_eq!(calls.iter().filter(|call| call.starts_with("handle a ")).count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call.starts_with("cleanup")).count(), 1, "{calls:?}");
}

#[test]
fn cleanup_that_fails_panics_or_requeues_keeps_the_finalizer_until_it_is_done() {
    let namespace = "finalizers-slow";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let (calls, tries) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let counted = tries.clone();
    let controller = builder(namespace, &calls).cleanup(FINALIZER, move |call: Call| {
        let tries = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match tries {
                0 => Err(format!("{} is not empty", call.key()).into()),
                1 => panic!("no way"),
                2 => Ok(Action::requeue_after(Duration::from_millis(50))),
                _ => Ok::<_, BoxError>(Action::done()),
            }
        }
    });
    let live = start(cluster, controller);
    cluster.apply([configmap(namespace, "a", "1"), configmap(namespace, "b", "1")]);
    calls.wait_for(&format!("handle a [{FINALIZER}]"));
    calls.wait_for(&format!("handle b [{FINALIZER}]"));
    delete(cluster, namespace, &["a"]);
    assert_eq!(tries.load(Ordering::SeqCst), 4);
    assert_eq!(finalizers(cluster, namespace, "b"), FINALIZER);
    live.stop();
    release(cluster, namespace, &["b"]);
}

#[test]
fn cleanup_that_hangs_or_always_fails_keeps_its_object_and_affects_no_other() {
    const TIMEOUTS: &str = "kooper_handler_timeouts_total{controller=\"keeper\"}";
    let namespace = "finalizers-stuck";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let calls = Log::default();
    let cleanup = async |object: Arc<ConfigMap>, calls: State<Log>| {
        note(&calls, "cleanup", &object);
        match &*object.name_any() {
            "hangs" => std::future::pending().await,
            "fails" => Err("it never works".into()),
            _ => Ok::<_, BoxError>(()),
        }
    };
    let controller = builder(namespace, &calls).timeout(Duration::from_millis(200));
    let live = start(cluster, controller.cleanup(FINALIZER, cleanup));
    let bad = ["hangs", "fails"];
    cluster.apply(bad.map(|name| configmap(namespace, name, "1")));
    for name in bad {
        calls.wait_for(&format!("handle {name} [{FINALIZER}]"));
    }
    let before = live.metric(TIMEOUTS);
    delete(cluster, namespace, &["hangs", "fails", "--wait=false"]);
    live.wait_for_metric(TIMEOUTS, |count| count >= before + 2.0);
    // Whoever looks at the object sees what keeps it.
    for (name, why) in
        [("fails", "`cleanup` failed: it never works"), ("hangs", "`cleanup` took longer than its timeout")]
    {
        let path = format!("jsonpath={{.items[?(@.regarding.name=='{name}')]['reason','type','note']}}");
        let recorded = || cluster.must(&["-n", namespace, "get", "events.events.k8s.io", "--output", &path]);
        let right = || (recorded().contains(why) && recorded().contains("CleanupFailed Warning")).then_some(());
        until(&format!("an Event on {name}"), right, recorded);
    }
    let failed = format!("cleanup fails [{FINALIZER}]");
    eventually("the other fails again", || calls.lines().iter().filter(|call| **call == failed).count() >= 3);

    cluster.apply([configmap(namespace, "good", "1")]);
    calls.wait_for(&format!("handle good [{FINALIZER}]"));
    delete(cluster, namespace, &["good"]);
    let again = live.metric(TIMEOUTS);
    live.wait_for_metric(TIMEOUTS, |count| count > again);
    live.stop();
    for name in bad {
        assert_eq!(finalizers(cluster, namespace, name), FINALIZER, "{name}");
    }
    release(cluster, namespace, &bad);
}

#[test]
fn neither_a_filter_nor_a_selector_hides_a_deletion() {
    let namespace = "finalizers-hidden";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let calls = Log::default();
    // The filter is not called for an object that waits to be cleaned up.
    let live = start(
        cluster,
        builder(namespace, &calls).labels("app=shop").when(|object: &ConfigMap| {
            object.data.as_ref().is_some_and(|data| data.get("value").is_some_and(|value| value == "1"))
        }),
    );
    cluster.apply([
        marked(namespace, "filtered", &[], &[("app", "shop")]),
        marked(namespace, "relabelled", &[], &[("app", "shop")]),
        // Left behind by an earlier run, and deleted while no replica ran.
        marked(namespace, "orphan", &[FINALIZER], &[]),
    ]);
    for name in ["filtered", "relabelled"] {
        calls.wait_for(&format!("handle {name} [{FINALIZER}]"));
    }
    let changed = r#"--patch={"data":{"value":"2"}}"#;
    cluster.must(&["-n", namespace, "patch", "configmap", "filtered", "--type=merge", changed]);
    cluster.must(&["-n", namespace, "label", "configmap", "relabelled", "app=none", "--overwrite"]);
    live.wait_for_metric("kooper_abandoned_total{controller=\"keeper\"}", |count| count == 1.0);
    assert_eq!(finalizers(cluster, namespace, "relabelled"), FINALIZER);
    delete(cluster, namespace, &["--all"]);
    for name in ["filtered", "relabelled", "orphan"] {
        calls.wait_for(&format!("cleanup {name} [{FINALIZER}]"));
    }
    live.stop();
}

#[test]
fn an_object_that_leaves_the_selector_is_cleaned_up_with_on_leave() {
    let namespace = "finalizers-leave";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let calls = Log::default();
    let live = start(cluster, builder(namespace, &calls).labels("app=shop").cleanup_on_leave());
    cluster.apply([marked(namespace, "a", &[], &[("app", "shop")])]);
    calls.wait_for(&format!("handle a [{FINALIZER}]"));
    cluster.must(&["-n", namespace, "label", "configmap", "a", "app=none", "--overwrite"]);
    calls.wait_for(&format!("cleanup a [{FINALIZER}]"));
    eventually("the finalizer is removed", || finalizers(cluster, namespace, "a").is_empty());
    cluster.must(&["-n", namespace, "label", "configmap", "a", "app=shop", "--overwrite"]);
    eventually("it is handled again", || finalizers(cluster, namespace, "a") == FINALIZER);
    live.stop();
    assert_eq!(calls.lines().iter().filter(|call| call.starts_with("cleanup")).count(), 1);
    release(cluster, namespace, &["a"]);
}

#[test]
fn a_previous_finalizer_is_taken_over() {
    let namespace = "finalizers-previous";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let calls = Log::default();
    let live = start(
        cluster,
        builder(namespace, &calls).previous_names(["old-keeper"]).previous_finalizers(["tests.example.com/old"]),
    );
    cluster.apply([marked(namespace, "a", &["tests.example.com/old"], &[])]);
    calls.wait_for(&format!("handle a [{FINALIZER}]"));
    delete(cluster, namespace, &["a"]);
    live.stop();
    calls.wait_for(&format!("cleanup a [{FINALIZER}]"));
}

#[test]
fn cleanup_is_called_again_for_what_it_has_not_seen() {
    let namespace = "finalizers-changed";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let calls = Log::default();
    let cleanup = async |object: Arc<ConfigMap>, client: Client, calls: State<Log>| {
        let id = object.annotations().get("id").cloned().unwrap_or_default();
        calls.note(format!("cleanup {id}"));
        // Another client writes what its cache does not have yet.
        let late = json!({"metadata": {"annotations": {"id": "late"}}});
        let objects: Api<ConfigMap> = Api::namespaced(client, "finalizers-changed");
        objects.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(late)).await?;
        Ok::<_, BoxError>(())
    };
    let live = start(cluster, builder(namespace, &calls).cleanup(FINALIZER, cleanup));
    cluster.apply([marked(namespace, "a", &["example.com/other"], &[])]);
    calls.wait_for(&format!("handle a [example.com/other {FINALIZER}]"));
    delete(cluster, namespace, &["a", "--wait=false"]);
    eventually("only the other finalizer is left", || finalizers(cluster, namespace, "a") == "example.com/other");
    live.stop();
    let seen: Vec<_> = calls.lines().into_iter().filter(|call| call.starts_with("cleanup")).collect();
    assert_eq!(seen, ["cleanup ", "cleanup late"]);
    release(cluster, namespace, &["a"]);
}
