//! The writes of a handler, and their echoes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::capability::PatchBody;
use kooper::prelude::*;
use kooper::{BoxError, Call, Controller, Creator, Patcher, Reader};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::{eventually, until};
use serde_json::json;

use crate::live::{Live, configmap, connection, state};

fn cluster(namespace: &str) -> Option<&'static ControlPlane> {
    let cluster = ControlPlane::shared()?;
    cluster.must(&["create", "namespace", namespace]);
    cluster.apply([configmap(namespace, "a", "0")]);
    Some(cluster)
}

#[test]
fn the_next_call_sees_the_write_of_the_last_one() {
    let namespace = "own-writes-seen";
    let Some(cluster) = cluster(namespace) else { return };
    let written: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let stale = Arc::new(AtomicUsize::new(0));
    let (last, missed) = (written.clone(), stale.clone());
    let controller = Controller::builder::<ConfigMap>("counter")
        .namespaces([namespace])
        .fields("metadata.name=a")
        .resync(None)
        .handler(move |object: Arc<ConfigMap>, call: Call, patcher: Patcher<ConfigMap>| {
            let (last, missed) = (last.clone(), missed.clone());
            async move {
                let (name, value) = state(&object).ok_or("no state")?;
                let value: u32 = value.parse()?;
                if last.lock().unwrap().get(name).is_some_and(|last| *last != value) {
                    missed.fetch_add(1, Ordering::SeqCst);
                }
                if value < 60 {
                    let next = (value + 1).to_string();
                    patcher.patch(call.key(), PatchBody::merge(json!({"data": {"value": next}}))).await?;
                    last.lock().unwrap().insert(name.to_owned(), value + 1);
                }
                Ok::<_, BoxError>(())
            }
        })
        .build()
        .unwrap();
    let live = Live::start(connection(cluster.kubeconfig(), None), [controller]);
    let count = || written.lock().unwrap().get("a").copied().unwrap_or_default();
    until("it has counted", || (count() == 60).then_some(()), || count().to_string());
    live.stop();
    assert_eq!(stale.load(Ordering::SeqCst), 0, "calls that saw an older state than the last write");
}

#[test]
fn the_next_call_reads_the_objects_of_its_own_kind_that_the_last_one_created() {
    let namespace = "own-writes-siblings";
    let Some(cluster) = cluster(namespace) else { return };
    let made = Arc::new(AtomicUsize::new(0));
    let missed = Arc::new(AtomicUsize::new(0));
    let (count, absent) = (made.clone(), missed.clone());
    let controller = Controller::builder::<ConfigMap>("siblings")
        .namespaces([namespace])
        .fields("metadata.name=a")
        .resync(None)
        .handler(move |call: Call, creator: Creator<ConfigMap>, configs: Reader<ConfigMap>| {
            let (count, absent) = (count.clone(), absent.clone());
            async move {
                let made = count.load(Ordering::SeqCst);
                let sibling = |n: usize| ObjectKey::new(call.key().namespace(), &format!("sibling-{n}"));
                for n in 0..made {
                    absent.fetch_add(usize::from(configs.get(&sibling(n))?.is_none()), Ordering::SeqCst);
                }
                if made == 60 {
                    return Ok(Action::done());
                }
                let mut next = ConfigMap::default();
                next.metadata.name = Some(sibling(made).name().to_owned());
                creator.create(&next).await?;
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, BoxError>(Action::requeue_after(Duration::from_millis(1)))
            }
        })
        .build()
        .unwrap();
    let live = Live::start(connection(cluster.kubeconfig(), None), [controller]);
    let count = || made.load(Ordering::SeqCst);
    until("all are created", || (count() == 60).then_some(()), || count().to_string());
    live.stop();
    assert_eq!(missed.load(Ordering::SeqCst), 0, "calls that did not see the created objects");
}

#[test]
fn the_echo_of_its_own_write_does_not_run_a_failing_key_and_a_write_of_another_client_does() {
    let namespace = "own-writes-failing";
    let Some(cluster) = cluster(namespace) else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let failing = Controller::builder::<ConfigMap>("failing")
        .namespaces([namespace])
        .fields("metadata.name=a")
        .resync(None)
        .backoff(Duration::from_secs(3600), Duration::from_secs(3600))
        .handler(move |call: Call, patcher: Patcher<ConfigMap>| {
            let calls = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                let written = json!({"metadata": {"annotations": {"calls": calls.to_string()}}});
                patcher.patch(call.key(), PatchBody::merge(written)).await?;
                Err::<(), BoxError>("it cannot work".into())
            }
        })
        .build()
        .unwrap();
    // The same write enqueues the key of this controller, before or after the other's.
    let seen = Arc::new(Mutex::new(String::new()));
    let noted = seen.clone();
    let witness = Controller::builder::<ConfigMap>("witness")
        .namespaces([namespace])
        .fields("metadata.name=a")
        .resync(None)
        .handler(move |object: Arc<ConfigMap>| {
            let calls = object.annotations().get("calls").cloned().unwrap_or_default();
            *noted.lock().unwrap() = format!("{calls} {}", state(&object).map_or("", |(_, value)| value));
            async {}
        })
        .build()
        .unwrap();
    let live = Live::start(connection(cluster.kubeconfig(), None), [failing, witness]);
    let sees = |state: &str| eventually(state, || *seen.lock().unwrap() == state);
    sees("1 0");
    // Both controllers share one watch, so the echo has been processed.
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    cluster.apply([configmap(namespace, "a", "1")]);
    sees("2 1");
    live.wait_for_metric("controller_runtime_reconcile_errors_total{controller=\"failing\"}", |errors| errors == 2.0);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    live.stop();
}
