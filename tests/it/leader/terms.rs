//! One replica is the leader; another takes over.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::controller::Builder;
use kooper::kube::Client;
use kooper::retriever::{channel, fixed};
use kooper::{Call, CancellationToken, Controller, ControllerError, RunError};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::faults::Proxy;
use kooper_tests::wait::{TIMEOUT, eventually, until};
use serde_json::json;

use super::replica::{Replica, assert_one_at_a_time, cluster, quick, wait_for, wait_for_many, writer};
use crate::fixture::{Log, config};
use crate::live::{configmap, connection};

/// A controller that logs the replica, the ConfigMap and the reasons of each call.
fn noting(namespace: &str, who: &'static str, log: &Log) -> Builder<ConfigMap> {
    Controller::builder::<ConfigMap>("notes")
        .namespaces([namespace])
        .when(|object: &ConfigMap| object.metadata.name.as_deref() != Some("kube-root-ca.crt"))
        .resync(None)
        .leader_election(quick(namespace))
        .handler(log.noting(move |call: Call| format!("{who} {} {}", call.key().name(), call.reasons())))
}

#[test]
fn one_replica_handles_all_objects_and_a_standby_with_a_warm_cache_takes_over_when_it_stops() {
    let namespace = "leader-terms";
    let Some(cluster) = cluster(namespace) else { return };
    let (log, inits) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let count = |inits: &Arc<AtomicUsize>| {
        let inits = inits.clone();
        move || {
            inits.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok::<_, kooper::BoxError>(()))
        }
    };
    let first = Replica::on(cluster, noting(namespace, "first", &log));
    first.wait_until_leads("shop-notes");
    for name in ["work", "record"] {
        wait_for(&log, &format!("first {name} leader"));
    }
    let state = inits.clone();
    let second = Controller::builder::<ConfigMap>("notes")
        .namespaces([namespace])
        .when(|object: &ConfigMap| object.metadata.name.as_deref() != Some("kube-root-ca.crt"))
        .leader_election(quick(namespace))
        .resync(None)
        .init(count(&state))
        .handler(log.noting(|call: Call| format!("second {} {}", call.key().name(), call.reasons())));
    let second = Replica::start(connection(cluster.kubeconfig(), None), [second.build().unwrap()]);
    second.wait_for_ready(true, &["notes: standby: the lease is held by "]);

    cluster.apply([configmap(namespace, "later", "1")]);
    wait_for(&log, "first later added");
    // The standby's cache has the object too, but its queue is empty.
    eventually("the cache is warm", || second.metric("kooper_store_objects{controller=\"notes\"}") == 4.0);
    assert_eq!(second.metric("kooper_controller_event_queue_length{controller=\"notes\"}"), 0.0);
    assert_eq!(inits.load(Ordering::SeqCst), 0, "only the leader calls `init`");
    assert!(!log.lines().iter().any(|line| line.starts_with("second")), "{:?}", log.lines());

    first.stop();
    for name in ["work", "record", "later"] {
        wait_for(&log, &format!("second {name} leader"));
    }
    second.wait_for_ready(true, &["ok"]);
    let seconds: Vec<_> = log.lines().into_iter().filter(|line| line.starts_with("second")).collect();
    assert_eq!(seconds.len(), 3, "each key once, without those that the filter excludes: {seconds:?}");
    assert_eq!(inits.load(Ordering::SeqCst), 1);
    second.stop();
}

#[test]
fn a_lease_is_renewed_while_init_blocks_its_thread() {
    let namespace = "leader-init";
    let Some(cluster) = cluster(namespace) else { return };
    let (log, inits) = (Log::default(), Arc::new(AtomicUsize::new(0)));
    let count = inits.clone();
    let (done, release) = mpsc::channel();
    let release = Arc::new(Mutex::new(release));
    let blocking = Controller::builder::<ConfigMap>("blocking")
        .namespaces([namespace])
        .leader_election(quick(namespace))
        .init(move || {
            count.fetch_add(1, Ordering::SeqCst);
            release.lock().recv_timeout(2 * TIMEOUT).unwrap();
            std::future::ready(Ok::<_, kooper::BoxError>(()))
        })
        .handler(log.noting(|call: Call| call.key().name().to_owned()));
    let replica = Replica::with_one_thread(cluster, blocking);
    replica.wait_until_leads("shop-blocking");
    eventually("`init` blocks", || inits.load(Ordering::SeqCst) == 1);
    // For longer than the lease lasts.
    let renewals = || replica.metric("kooper_lease_renew_duration_seconds_count{controller=\"blocking\"}");
    let before = renewals();
    eventually("the lease is renewed", || renewals() >= before + 5.0);
    assert!(replica.leads("shop-blocking"));
    done.send(()).unwrap();
    wait_for(&log, "work");
    assert_eq!(inits.load(Ordering::SeqCst), 1, "the first term has not ended");
    replica.stop();
}

#[test]
fn a_stop_ends_calls_and_their_tasks_before_the_lease_is_released() {
    let namespace = "leader-drain";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let note = log.clone();
    // The call and its task continue for longer than the lease lasts.
    let slow = Controller::builder::<ConfigMap>("writer")
        .namespaces([namespace])
        .fields("metadata.name=work")
        .leader_election(quick(namespace))
        .handler(move |call: Call| {
            let (log, task) = (note.clone(), note.clone());
            async move {
                call.spawn(|stop| async move {
                    stop.cancelled().await;
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    task.note("first wrote");
                    task.note("first ends");
                });
                log.note("first begins");
                call.cancelled().await;
                tokio::time::sleep(Duration::from_secs(4)).await;
                log.note("first wrote");
            }
        });
    let first = Replica::on(cluster, slow);
    wait_for(&log, "first begins");
    let second = Replica::on(cluster, writer("writer", namespace, "second", &log));
    second.wait_for_ready(true, &["standby: the lease is held by "]);
    first.stop();
    wait_for(&log, "second wrote");
    second.stop();
    assert_one_at_a_time(&log, &["first", "second"]);
}

#[test]
fn a_handler_that_ignores_its_abort_after_leadership_was_lost_ends_the_operator() {
    let namespace = "leader-outlived";
    let Some(cluster) = cluster(namespace) else { return };
    let (log, release) = (Log::default(), CancellationToken::new());
    let (note, released) = (log.clone(), release.clone());
    let blocks = Controller::builder::<ConfigMap>("writer")
        .namespaces([namespace])
        .fields("metadata.name=work")
        .leader_election(quick(namespace))
        .handler(move || {
            let (log, released) = (note.clone(), released.clone());
            async move {
                log.note("blocks");
                while !released.is_cancelled() {
                    std::thread::park_timeout(Duration::from_millis(20));
                }
            }
        });
    let mut replica = Replica::on(cluster, blocks);
    wait_for(&log, "blocks");
    cluster.must(&["-n", namespace, "patch", "lease", "shop-writer", "--type=merge", "--patch", TAKEN]);
    let ended = replica.end();
    release.cancel();
    let Err(RunError::Controller { controller, reason }) = ended else { panic!("{ended:?}") };
    assert_eq!((controller.as_str(), reason), ("writer", ControllerError::AbortIgnored));
    // The lease was not released, because the handler may have written.
    assert_eq!(holder(cluster, namespace, "shop-writer"), "somebody");
}

#[test]
fn an_init_that_ignores_its_abort_after_leadership_was_lost_ends_the_operator() {
    let namespace = "leader-init-outlived";
    let Some(cluster) = cluster(namespace) else { return };
    let (log, release) = (Log::default(), CancellationToken::new());
    let (note, released) = (log.clone(), release.clone());
    let blocks = Controller::builder::<ConfigMap>("writer")
        .namespaces([namespace])
        .leader_election(quick(namespace))
        .init(move || {
            note.note("blocks");
            while !released.is_cancelled() {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            std::future::ready(Ok::<_, kooper::BoxError>(()))
        })
        .handler(async || {});
    let mut replica = Replica::on(cluster, blocks);
    wait_for(&log, "blocks");
    cluster.must(&["-n", namespace, "patch", "lease", "shop-writer", "--type=merge", "--patch", TAKEN]);
    let ended = replica.end();
    release.cancel();
    assert!(matches!(ended, Err(RunError::Controller { reason: ControllerError::AbortIgnored, .. })), "{ended:?}");
}

/// A patch that changes the holder, as another client would.
const TAKEN: &str = r#"{"spec":{"holderIdentity":"somebody"}}"#;

pub(super) fn holder(cluster: &ControlPlane, namespace: &str, lease: &str) -> String {
    cluster.must(&["-n", namespace, "get", "lease", lease, "--output", "jsonpath={.spec.holderIdentity}"])
}

#[test]
fn a_controller_without_an_operator_returns_an_error_when_it_loses_leadership() {
    let namespace = "leader-by-hand";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    // Without an operator, the name of the program is that of the test binary.
    let mut controller = writer("writer", namespace, "alone", &log);
    controller = controller.leader_election(quick(namespace).lease("by-hand"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = runtime.block_on(connection(cluster.kubeconfig(), None));
    let running = runtime.spawn(async move {
        let client = Client::try_from(config).unwrap();
        controller.build().unwrap().run(Some(client), CancellationToken::new()).await
    });
    wait_for(&log, "alone wrote");
    cluster.must(&["-n", namespace, "patch", "lease", "by-hand", "--type=merge", "--patch", TAKEN]);
    let error = runtime.block_on(running).unwrap().unwrap_err();
    assert!(error.to_string().ends_with("leadership lost"), "{error}");
    assert!(matches!(&error, RunError::Controller { reason: ControllerError::LeadershipLost, .. }), "{error:?}");
    let lines = log.lines();
    let refused = "alone failed: ";
    assert!(lines.last().is_some_and(|line| line.starts_with(refused) && line.contains("was not sent")), "{lines:?}");
}

#[test]
fn a_standby_stops_at_once() {
    let namespace = "leader-standby-stops";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let first = Replica::on(cluster, writer("writer", namespace, "first", &log));
    wait_for(&log, "first wrote");
    let proxy = Proxy::start(cluster.address());
    let config = connection(cluster.kubeconfig(), Some(proxy.address()));
    let second = Replica::start(config, [writer("writer", namespace, "second", &log).build().unwrap()]);
    second.wait_for_ready(true, &["standby: "]);
    let version = || {
        let path = "jsonpath={.spec.leaseTransitions}";
        cluster.must(&["-n", namespace, "get", "lease", "shop-writer", "--output", path])
    };
    let before = version();
    // Stopping needs no request.
    proxy.shut();
    second.stop();
    assert_eq!(version(), before);
    first.stop();
    assert_eq!(holder(cluster, namespace, "shop-writer"), "");
    assert_one_at_a_time(&log, &["first"]);
}

#[test]
fn leader_election_works_with_a_custom_retriever() {
    let namespace = "leader-own-retriever";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let own = |who: &'static str| {
        Controller::builder::<ConfigMap>("own")
            .retriever(fixed([config("a", "1")]).unwrap())
            .leader_election(quick(namespace))
            .handler(log.noting(move |call: Call| format!("{who} {} {}", call.key().name(), call.reasons())))
    };
    let first = Replica::on(cluster, own("first"));
    wait_for(&log, "first a leader");
    let second = Replica::on(cluster, own("second"));
    second.wait_for_ready(true, &["standby: "]);
    first.stop();
    wait_for_many(&log, 1, "second a leader");
    assert_eq!(log.count(), 2, "{:?}", log.lines());
    until("it is the leader", || second.leads("shop-own").then_some(()), String::new);
    second.stop();
}

#[test]
fn a_replica_that_lost_leadership_does_not_report_objects_of_its_last_term() {
    let namespace = "leader-undecodable";
    let Some(cluster) = cluster(namespace) else { return };
    let (retriever, events) = channel::<ConfigMap>([]).unwrap();
    let controller = Controller::builder::<ConfigMap>("terms").resync(None).retriever(retriever);
    let replica = Replica::on(cluster, controller.leader_election(quick(namespace)).handler(async || {}));
    replica.wait_until_leads("shop-terms");
    events.add(&json!({"metadata": {"name": "poison", "namespace": "test"}, "data": 7})).unwrap();
    replica.wait_for_ready(true, &["terms: the object test/poison does not decode as the controller's type"]);

    let place = format!("--namespace={namespace}");
    let patch = r#"{"spec":{"holderIdentity":"another"}}"#;
    cluster.must(&["patch", "lease", "shop-terms", &place, "--type=merge", "--patch", patch]);
    // The other replica may handle the object by now; this one cannot know its state.
    let remark = || replica.ready().unwrap_or_default();
    until("a standby without the remark", || (!remark().contains("poison")).then_some(()), remark);
    replica.stop();
}
