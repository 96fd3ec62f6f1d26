//! The writes of a handler, and their echoes.

mod failing;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::capability::PatchBody;
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::{BoxError, Call, Controller, Creator, Patcher, Reader};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::{eventually, until};
use serde_json::json;

use crate::fixture::{Log, Start, with_name};
use crate::live::{Live, configmap, state};

fn cluster(namespace: &str) -> Option<&'static ControlPlane> {
    ControlPlane::shared_in(namespace, [configmap(namespace, "a", "0")])
}

/// A controller of the object `a`.
fn builder(name: &str, namespace: &str) -> Builder<ConfigMap> {
    Controller::builder(name).namespaces([namespace]).fields("metadata.name=a").resync(None)
}

#[test]
fn the_next_call_sees_the_write_of_the_last_one() {
    let namespace = "own-writes-seen";
    let Some(cluster) = cluster(namespace) else { return };
    let written: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let stale = Arc::new(AtomicUsize::new(0));
    let (last, missed) = (written.clone(), stale.clone());
    let live = builder("counter", namespace)
        .handler(move |object: Arc<ConfigMap>, call: Call, patcher: Patcher<ConfigMap>| {
            let (last, missed) = (last.clone(), missed.clone());
            async move {
                let (name, value) = state(&object).ok_or("no state")?;
                let value: u32 = value.parse()?;
                if last.lock().get(name).is_some_and(|last| *last != value) {
                    missed.fetch_add(1, Ordering::SeqCst);
                }
                if value < 60 {
                    let next = (value + 1).to_string();
                    patcher.patch(call.key(), PatchBody::merge(json!({"data": {"value": next}}))).await?;
                    last.lock().insert(name.to_owned(), value + 1);
                }
                Ok::<_, BoxError>(())
            }
        })
        .start_on(cluster);
    let count = || written.lock().get("a").copied().unwrap_or_default();
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
    let live = builder("siblings", namespace)
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
                let next: ConfigMap = with_name(sibling(made).name());
                creator.create(&next).await?;
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, BoxError>(Action::requeue_after(Duration::from_millis(1)))
            }
        })
        .start_on(cluster);
    let count = || made.load(Ordering::SeqCst);
    until("all are created", || (count() == 60).then_some(()), || count().to_string());
    live.stop();
    assert_eq!(missed.load(Ordering::SeqCst), 0, "calls that did not see the created objects");
}

#[test]
fn the_echo_of_its_own_write_does_not_run_a_failing_key_and_a_write_of_another_client_does() {
    let namespace = "own-writes-failing";
    let Some(cluster) = cluster(namespace) else { return };
    let log = Log::default();
    let failing = builder("failing", namespace)
        .backoff(Duration::from_millis(20), Duration::from_secs(3600))
        .state(log.clone())
        .handler(async |call: Call, patcher: Patcher<ConfigMap>, log: State<Log>| {
            log.note(call.reasons().to_string());
            let number = log.count();
            // Each call writes more than the one before, and every second one removes what that has set.
            for step in 0..number {
                let odd = (number % 2 == 1).then_some("yes");
                let written = json!({"data": {"step": format!("{number}.{step}"), "odd": odd}});
                patcher.patch(call.key(), PatchBody::merge(written)).await?;
            }
            Err::<(), BoxError>("it cannot work".into())
        })
        .build()
        .unwrap();
    // Its calls see all writes: both controllers share one watch.
    let seen = Arc::new(Mutex::new(String::new()));
    let noted = seen.clone();
    let witness = builder("witness", namespace)
        .handler(move |object: Arc<ConfigMap>| {
            *noted.lock() = object.data.as_ref().and_then(|data| data.get("step")).cloned().unwrap_or_default();
            async {}
        })
        .build()
        .unwrap();
    let live = Live::on(cluster, [failing, witness]);
    // The delay doubles with each failure. After the tenth call it is ten seconds.
    eventually("ten calls, and their last write", || log.count() == 10 && *seen.lock() == "10.9");
    let early: Vec<_> = log.lines().into_iter().skip(1).filter(|reasons| reasons != "retry").collect();
    assert!(early.is_empty(), "calls because of {early:?}");
    cluster.apply([configmap(namespace, "a", "1")]);
    eventually("a call because of the change", || log.count() == 11);
    assert_eq!(log.lines().last().unwrap(), "modified");
    live.stop();
}
