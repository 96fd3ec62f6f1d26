//! Faults of watches between a controller and a real API server. No change is lost.

use parking_lot::MutexGuard;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::kube::Config;
use kooper::{Call, Controller, KindExt};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::{Proxy, Verdict};
use kooper_tests::process::Process;
use kooper_tests::wait::eventually;
use serde_json::{Value, json};

use crate::fixture::Log;
use crate::live::{HandledStates, Live, configmap, connection, recorder};

const RELISTS: &str = "kooper_relists_total{controller=\"recorder\"}";
const OBJECTS: &str = "kooper_store_objects{controller=\"recorder\"}";

/// The shared control plane with a new namespace that contains the object `first`.
fn shared(namespace: &str) -> Option<&'static ControlPlane> {
    ControlPlane::shared_in(namespace, [configmap(namespace, "first", "0")])
}

/// The control plane that the test may stop, with a new namespace that contains the object `first`.
fn exclusive(namespace: &str) -> Option<MutexGuard<'static, ControlPlane>> {
    let cluster = ControlPlane::exclusive()?;
    cluster.create_namespace(namespace, [configmap(namespace, "first", "0")]);
    Some(cluster)
}

/// `kubectl proxy`: the API server in plain HTTP.
fn plain(cluster: &ControlPlane) -> (Process, SocketAddr) {
    let proxy = Process::run(&mut cluster.kubectl_command(&["proxy", "--port=0"]));
    let line = proxy.wait_for_line(&["Starting to serve on "]);
    let address = line.rsplit(' ').next().and_then(|address| address.parse().ok());
    (proxy, address.expect("kubectl prints its address"))
}

async fn plain_connection(proxy: SocketAddr) -> Config {
    Config::new(format!("http://{proxy}").parse().unwrap())
}

/// Returns whether the request resumes a watch; `false` for lists, streaming or not.
fn resumes(head: &str) -> bool {
    head.contains("watch=true") && !head.contains("sendInitialEvents=true")
}

/// The response to a watch from a version that is too old.
fn gone() -> Verdict {
    const GONE: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version: 1 (2)"}"#;
    let length = GONE.len();
    let head = "HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nConnection: close";
    Verdict::Answer(format!("{head}\r\nContent-Length: {length}\r\n\r\n{GONE}"))
}

/// The head of a request whose watch ends after a second.
fn for_a_second(head: &str) -> String {
    let Some((before, after)) = head.split_once("timeoutSeconds=") else { return head.to_owned() };
    format!("{before}timeoutSeconds=1{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit()))
}

#[test]
fn a_watch_that_the_server_closes_every_second_is_resumed_without_loss() {
    let namespace = "closed-every-second";
    let Some(cluster) = shared(namespace) else { return };
    let (_plain, address) = plain(cluster);
    let resumed = Arc::new(AtomicUsize::new(0));
    let count = resumed.clone();
    let proxy = Proxy::start_http(address, move |head| {
        count.fetch_add(usize::from(resumes(&head)), Ordering::SeqCst);
        Verdict::Pass(for_a_second(&head))
    });
    let seen = HandledStates::default();
    let live = Live::start(plain_connection(proxy.address()), [recorder("recorder", namespace, &seen)]);

    let mut names = vec!["first".to_owned()];
    while resumed.load(Ordering::SeqCst) < 4 {
        // Create one object, and change all others.
        names.push(format!("round-{}", names.len()));
        let value = names.len().to_string();
        cluster.apply(names.iter().map(|name| configmap(namespace, name, &value)));
        seen.wait_for(&names.iter().map(|name| (name, &*value)).collect::<Vec<_>>());
    }
    assert_eq!(live.metric(RELISTS), 0.0, "the end of a watch does not cause a list");
    live.wait_for_ready(true, &["ok"]);
    live.stop();
}

#[test]
fn connections_that_break_repeatedly_lose_no_change() {
    let namespace = "cut";
    let Some(cluster) = shared(namespace) else { return };
    let proxy = Proxy::start(cluster.address());
    let seen = HandledStates::default();
    let config = connection(cluster.kubeconfig(), Some(proxy.address()));
    let live = Live::start(config, [recorder("recorder", namespace, &seen)]);
    seen.wait_for(&[("first", "0")]);

    for round in 1..=4 {
        let value = round.to_string();
        let write = |name: &str| cluster.apply([configmap(namespace, name, &value)]);
        write("before");
        assert!(proxy.cut() > 0, "there was a connection");
        write("after");
        write("first");
        seen.wait_for(&[("before", &*value), ("after", &value), ("first", &value)]);
    }
    // Changes while no connection was possible are not lost.
    proxy.shut();
    cluster.apply([configmap(namespace, "first", "while shut")]);
    cluster.must(&["delete", "configmap", "before", "--namespace", namespace]);
    let objects = live.metric(OBJECTS);
    proxy.open();
    seen.wait_for(&[("first", "while shut")]);
    live.wait_for_metric(OBJECTS, |now| now == objects - 1.0);
    assert_eq!(live.metric(RELISTS), 0.0, "a broken connection does not cause a list");
    live.stop();
}

#[test]
fn a_410_response_lists_once_and_reveals_the_changes_in_the_gap() {
    const TIMES: usize = 3;
    let namespace = "gone";
    let Some(cluster) = shared(namespace) else { return };
    let (_plain, address) = plain(cluster);
    cluster.apply((1..=TIMES).map(|n| configmap(namespace, &format!("goes-{n}"), "0")));

    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let proxy = Proxy::start_http(address, move |head| {
        if !resumes(&head) || !head.contains("/configmaps?") || count.load(Ordering::SeqCst) == TIMES {
            return Verdict::Pass(for_a_second(&head));
        }
        let time = count.fetch_add(1, Ordering::SeqCst) + 1;
        // The gap: no watch has events for these changes.
        cluster.apply([
            configmap(namespace, "first", &time.to_string()),
            configmap(namespace, &format!("comes-{time}"), "0"),
        ]);
        cluster.must(&["delete", "configmap", &format!("goes-{time}"), "--namespace", namespace]);
        gone()
    });
    let seen = HandledStates::default();
    let related = Controller::builder::<Secret>("related")
        .namespaces([namespace])
        .watches::<ConfigMap, _, _>(|_: &ConfigMap| None)
        .handler(async || {})
        .build()
        .unwrap();
    let live = Live::start(plain_connection(proxy.address()), [recorder("recorder", namespace, &seen), related]);
    seen.wait_for(&[("first", "3"), ("comes-1", "0"), ("comes-2", "0"), ("comes-3", "0")]);
    // Besides ours there may be the ConfigMap that each namespace gets.
    let root = cluster.must(&["get", "configmaps", "--output=name", "--namespace", namespace]);
    live.wait_for_metric(OBJECTS, |objects| objects == root.lines().count() as f64);
    assert_eq!(refused.load(Ordering::SeqCst), TIMES);
    assert_eq!(live.metric(RELISTS), TIMES as f64, "one list for each 410");
    let related = live.metric("kooper_relists_total{controller=\"related\"}");
    assert_eq!(related, TIMES as f64, "lists of the other kinds that a controller watches count as well");
    live.wait_for_ready(true, &["ok"]);
    live.stop();
}

#[test]
fn the_first_call_waits_until_every_namespace_is_listed_or_has_failed() {
    let [first, slow] = ["listed-first", "listed-later"];
    let Some(cluster) = shared(first) else { return };
    cluster.create_namespace(slow, [configmap(slow, "there", "0")]);
    let (_plain, address) = plain(cluster);
    let (held, lists) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let (holds, counts) = (held.clone(), lists.clone());
    let proxy = Proxy::start_http(address, move |head| {
        if head.contains(&format!("/namespaces/{slow}/configmaps?")) && counts.fetch_add(1, Ordering::SeqCst) == 0 {
            holds.wait();
        }
        Verdict::Pass(head)
    });
    let (seen, released) = (HandledStates::default(), Arc::new(AtomicBool::new(false)));
    let (noted, open) = (seen.clone(), released.clone());
    let controller = Controller::builder::<ConfigMap>("patient")
        .namespaces([first, slow])
        .resync(None)
        .handler(move |call: Call| {
            noted.note(call.key().name(), if open.load(Ordering::SeqCst) { "in time" } else { "too early" });
            async {}
        })
        .build()
        .unwrap();
    let live = Live::start(plain_connection(proxy.address()), [controller]);
    live.wait_for_ready(false, &["patient: configmaps in listed-later: not synced yet"]);
    live.wait_for_metric("kooper_store_objects{controller=\"patient\"}", |objects| objects >= 1.0);
    released.store(true, Ordering::SeqCst);
    held.wait();
    seen.wait_for(&[("first", "in time"), ("there", "in time")]);
    live.stop();
}

#[test]
fn a_child_that_is_deleted_in_a_gap_enqueues_its_owner() {
    const GOES: &str = "Secret orphaned/goes";
    let namespace = "orphaned";
    let Some(cluster) = shared(namespace) else { return };
    let (_plain, address) = plain(cluster);
    let path = "--output=jsonpath={.metadata.uid}";
    let uid = cluster.must(&["get", "configmap", "first", "--namespace", namespace, path]);
    let child = |name: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "first", "uid": uid, "controller": true});
        let metadata = json!({"namespace": namespace, "name": name, "ownerReferences": [owner]});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    };
    cluster.apply([child("goes"), child("stays")]);

    let armed = Arc::new(AtomicBool::new(false));
    let gap = armed.clone();
    let proxy = Proxy::start_http(address, move |head| {
        if !resumes(&head) || !head.contains("/secrets?") || !gap.swap(false, Ordering::SeqCst) {
            return Verdict::Pass(for_a_second(&head));
        }
        cluster.must(&["delete", "secret", "goes", "--namespace", namespace]);
        gone()
    });
    let log = Log::default();
    let controller = Controller::builder::<ConfigMap>("parents")
        .namespaces([namespace])
        .fields("metadata.name=first")
        .resync(None)
        .owns(Secret::all())
        .handler(log.noting(|call: Call| call.reasons().to_string()))
        .build()
        .unwrap();
    let live = Live::start(plain_connection(proxy.address()), [controller]);
    eventually("the first call", || log.count() > 0);
    cluster.apply([child("comes")]);
    let woken_by = |name: &str| log.lines().iter().filter(|reasons| reasons.contains(name)).count();
    eventually("a child enqueues its owner", || woken_by("Secret orphaned/comes") > 0);
    // Reasons from the first list do not count.
    let before = woken_by(GOES);
    armed.store(true, Ordering::SeqCst);
    eventually("the deletion of a child enqueues its owner", || woken_by(GOES) > before);
    assert_eq!(woken_by(GOES), before + 1);
    live.wait_for_metric("kooper_relists_total{controller=\"parents\"}", |relists| relists == 1.0);
    live.stop();
}

#[test]
fn a_410_in_the_stream_lists_again_and_reveals_the_changes_in_the_gap() {
    let namespace = "gone-in-the-stream";
    let Some(cluster) = exclusive(namespace) else { return };
    cluster.apply([configmap(namespace, "goes", "0")]);
    let proxy = Proxy::start(cluster.address());
    let seen = HandledStates::default();
    let config = connection(cluster.kubeconfig(), Some(proxy.address()));
    let live = Live::start(config, [recorder("recorder", namespace, &seen)]);
    seen.wait_for(&[("first", "0"), ("goes", "0")]);
    let objects = live.metric(OBJECTS);

    // A restarted server has no events from before.
    proxy.shut();
    cluster.apply([configmap(namespace, "first", "1"), configmap(namespace, "comes", "1")]);
    cluster.must(&["delete", "configmap", "goes", "--namespace", namespace]);
    cluster.stop_apiserver();
    cluster.start_apiserver();
    proxy.open();
    seen.wait_for(&[("first", "1"), ("comes", "1")]);
    live.wait_for_metric(OBJECTS, |now| now == objects);
    assert_eq!(live.metric(RELISTS), 1.0);
    cluster.apply([configmap(namespace, "first", "2")]);
    seen.wait_for(&[("first", "2")]);
    live.stop();
}

#[test]
fn a_controller_waits_for_a_stopped_or_killed_api_server_and_loses_no_change() {
    let namespace = "unavailable";
    let Some(cluster) = exclusive(namespace) else { return };
    let seen = HandledStates::default();
    let live = Live::start(connection(cluster.kubeconfig(), None), [recorder("recorder", namespace, &seen)]);
    seen.wait_for(&[("first", "0")]);

    for value in ["stopped", "killed"] {
        cluster.apply([configmap(namespace, "before", value)]);
        if value == "stopped" {
            cluster.stop_apiserver();
        } else {
            cluster.kill_apiserver();
        }
        // The cache is complete, so the process stays ready, and reports the error.
        live.wait_for_ready(
            true,
            &[
                "recorder: configmaps in unavailable: ",
                "check that the API server runs and that its address is correct",
            ],
        );
        cluster.start_apiserver();
        cluster.apply([configmap(namespace, "after", value), configmap(namespace, "first", value)]);
        seen.wait_for(&[("before", value), ("after", value), ("first", value)]);
        live.wait_for_ready(true, &["ok"]);
    }
    assert!(live.is_alive());
    live.stop();
}

#[test]
fn a_server_without_streaming_lists_is_listed_in_pages_and_watched() {
    let namespace = "paged";
    let Some(cluster) = ControlPlane::without_streaming_lists() else { return };
    let names: Vec<_> = (0..510).map(|n| format!("config-{n}")).collect();
    cluster.create_namespace(namespace, names.iter().map(|name| configmap(namespace, name, "0")));

    let seen = HandledStates::default();
    let live = Live::start(connection(cluster.kubeconfig(), None), [recorder("recorder", namespace, &seen)]);
    seen.wait_for(&names.iter().map(|name| (name, "0")).collect::<Vec<_>>());
    cluster.apply([configmap(namespace, "config-7", "1"), configmap(namespace, "new", "1")]);
    seen.wait_for(&[("config-7", "1"), ("new", "1")]);
    assert_eq!(live.metric(RELISTS), 0.0);
    live.stop();

    let log = cluster.audit_log(namespace);
    let path_of_all = format!("/api/v1/namespaces/{namespace}/configmaps?");
    let requests = |part: &str, code: u16| {
        let right = |event: &&Value| {
            let path = event["requestURI"].as_str().unwrap_or_default();
            let kubectl = event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("kubectl"));
            path.starts_with(&path_of_all)
                && path.contains(part)
                && !kubectl
                && event["responseStatus"]["code"] == code
                // A watch has a second event at its start.
                && event["stage"] == "ResponseComplete"
        };
        log.iter().filter(right).count()
    };
    assert_eq!(requests("sendInitialEvents=true", 422), 1, "one request for a streaming list");
    assert_eq!((requests("limit=500", 200), requests("continue=", 200)), (2, 1), "then for two pages");
}
