//! Calls that write and then fail: the echoes of their writes do not shorten the back-off, and other changes do.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::capability::{PatchBody, owned_by};
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kooper::{Applier, BoxError, Call, Controller, Creator, Deleter, Patcher, Reader, kube};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fixture::{Log, with_name};

/// A kind with a generation.
#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Stall", namespaced, status = "StallStatus", derive = "Default")]
#[serde(default)]
struct StallSpec {
    wares: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct StallStatus {
    calls: String,
}

/// The calls of a controller, all of which fail.
struct Calls {
    log: Log,
    /// The time from the write to the end of a call.
    rest: Duration,
}

impl Calls {
    /// Notes a call, and returns its number.
    fn begin(&self, call: &Call) -> String {
        self.log.note(call.reasons().to_string());
        self.log.count().to_string()
    }

    async fn end(&self) -> Result<()> {
        sleep(self.rest).await;
        Err("it cannot work".into())
    }
}

/// A controller whose calls patch their own object.
fn patching<K: Kind>(
    builder: Builder<K, K, Calls>,
    patch: impl Fn(String) -> PatchBody + Send + Sync + 'static,
) -> Result<Controller> {
    let handler = move |call: Call, patcher: Patcher<K>, calls: State<Calls>| {
        let patch = patch(calls.begin(&call));
        async move {
            patcher.patch(call.key(), patch).await?;
            calls.end().await
        }
    };
    Ok(builder.handler(handler).build()?)
}

type Make<K> = fn(Builder<K, K, Calls>) -> Result<Controller>;

fn merge(value: Value) -> PatchBody {
    PatchBody::merge(value)
}

fn secret(name: &str, value: &str) -> Secret {
    let mut secret: Secret = with_name(name);
    secret.string_data = Some([("value".to_owned(), value.to_owned())].into());
    secret
}

/// Controllers of a kind without `metadata.generation`, by the fields that their calls write.
const PLAIN: [(&str, Make<ConfigMap>); 14] = [
    ("nothing", |builder| patching(builder, |_| merge(json!({})))),
    ("annotation", |builder| patching(builder, |n| merge(json!({"metadata": {"annotations": {"calls": n}}})))),
    ("label", |builder| patching(builder, |n| merge(json!({"metadata": {"labels": {"calls": n}}})))),
    ("data", |builder| patching(builder, |n| merge(json!({"data": {"calls": n}})))),
    ("json", |builder| {
        patching(builder, |n| PatchBody::json(json!([{"op": "add", "path": "/data", "value": {"calls": n}}])))
    }),
    ("strategic", |builder| patching(builder, |n| PatchBody::strategic(json!({"data": {"calls": n}})))),
    // Every second call removes what the one before has written.
    ("removal", |builder| {
        patching(builder, |n| {
            let is_even = n.parse().is_ok_and(|n: u32| n.is_multiple_of(2));
            merge(json!({"data": {"even": is_even.then_some("yes")}}))
        })
    }),
    ("apply", |builder| {
        let handler = async |call: Call, applier: Applier<ConfigMap>, calls: State<Calls>| {
            let mut object: ConfigMap = with_name(call.key().name());
            object.data = Some([("calls".to_owned(), calls.begin(&call))].into());
            applier.apply(&object).await?;
            calls.end().await
        };
        Ok(builder.handler(handler).build()?)
    }),
    // More writes than a queue has ever kept of one object, and a mark that is removed at the end.
    ("many", |builder| {
        let handler =
            async |call: Call, patcher: Patcher<ConfigMap>, configs: Reader<ConfigMap>, calls: State<Calls>| {
                let number = calls.begin(&call);
                configs.get(call.key())?;
                let busy = |busy| merge(json!({"metadata": {"annotations": {"busy": busy}}}));
                patcher.patch(call.key(), busy(Some("yes"))).await?;
                for step in 0..70 {
                    let data = json!({"data": {"step": format!("{number}.{step}")}});
                    patcher.patch(call.key(), merge(data)).await?;
                }
                patcher.patch(call.key(), busy(None)).await?;
                calls.end().await
            };
        Ok(builder.handler(handler).build()?)
    }),
    ("children", |builder| {
        let handler = async |object: Arc<ConfigMap>, call: Call, secrets: OwnedApplier<Secret>, calls: State<Calls>| {
            let number = calls.begin(&call);
            for child in 0..12 {
                let child = secret(&format!("{}-{child}", call.key().name()), &number);
                secrets.apply_owned(&*object, &child).await?;
            }
            calls.end().await
        };
        Ok(builder.handler(handler).build()?)
    }),
    ("creation", |builder| {
        let handler = async |object: Arc<ConfigMap>, call: Call, secrets: Creator<Secret>, calls: State<Calls>| {
            let number = calls.begin(&call);
            let child = secret(&format!("{}-{number}", call.key().name()), &number);
            secrets.create(&owned_by(&*object, child)?).await?;
            calls.end().await
        };
        Ok(builder.owns(Secret::all()).handler(handler).build()?)
    }),
    // A child that no cache has before it is deleted.
    ("deletion", |builder| {
        let handler = async |object: Arc<ConfigMap>,
                             call: Call,
                             secrets: Creator<Secret>,
                             deleter: Deleter<Secret>,
                             calls: State<Calls>| {
            let number = calls.begin(&call);
            let child = secret(&format!("{}-{number}", call.key().name()), &number);
            let child = secrets.create(&owned_by(&*object, child)?).await?;
            deleter.delete_object(&child).await?;
            calls.end().await
        };
        Ok(builder.owns(Secret::all()).handler(handler).build()?)
    }),
    ("finalizer", |builder| {
        let builder = builder.cleanup("example.com/fails", || async {});
        patching(builder, |n| merge(json!({"data": {"calls": n}})))
    }),
    // The object is written before the rest of the call.
    ("twice", |builder| {
        let handler = async |call: Call, patcher: Patcher<ConfigMap>, calls: State<Calls>| {
            let number = calls.begin(&call);
            patcher.patch(call.key(), merge(json!({"data": {"begun": number}}))).await?;
            sleep(calls.rest).await;
            patcher.patch(call.key(), merge(json!({"data": {"ended": number}}))).await?;
            calls.end().await
        };
        Ok(builder.handler(handler).build()?)
    }),
];

/// Controllers of a kind with `metadata.generation`, by the fields that their calls write.
const GENERATIONS: [(&str, Make<Stall>); 4] = [
    ("nothing", |builder| patching(builder, |_| merge(json!({})))),
    ("annotation", |builder| patching(builder, |n| merge(json!({"metadata": {"annotations": {"calls": n}}})))),
    ("spec", |builder| patching(builder, |n| merge(json!({"spec": {"wares": n}})))),
    ("status", |builder| {
        let handler = async |stall: Arc<Stall>, call: Call, statuses: StatusWriter<Stall>, calls: State<Calls>| {
            let status = StallStatus { calls: calls.begin(&call) };
            statuses.apply_status(&stall, &status).await?;
            calls.end().await
        };
        Ok(builder.handler(handler).build()?)
    }),
];

/// Runs controllers for ten minutes, each with one object, and compares them with the first one.
async fn ten_minutes<K: Kind + Default + Serialize>(
    cluster: &Cluster,
    start: fn(&str) -> Builder<K>,
    all: &[(&str, Make<K>)],
    rest: Duration,
    change: Value,
) -> Result<()> {
    let (mut controllers, mut objects, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for (name, make) in all {
        let name = format!("{name}-{}", rest.as_millis());
        let calls = Calls { log: Log::default(), rest };
        logs.push((name.clone(), calls.log.clone()));
        controllers.push(make(start(&name).labels(format!("app={name}")).resync(None).state(calls))?);
        let mut object = K::default();
        object.meta_mut().labels = Some([("app".to_owned(), name.clone())].into());
        object.meta_mut().name = Some(name);
        objects.push(object);
    }
    let running = cluster.run(controllers).await?;
    for object in &objects {
        cluster.create(object).await?;
    }
    sleep(Duration::from_secs(600)).await;
    let expected = logs[0].1.count();
    for (name, log) in &logs {
        let early = log.lines().into_iter().skip(1).filter(|reasons| reasons != "retry").collect::<Vec<_>>();
        assert!(early.is_empty(), "{name}: calls because of {early:?}");
        // The retries of one that writes are later by the time that its requests take.
        assert!((expected - 1..=expected).contains(&log.count()), "{name}: {} calls, not {expected}", log.count());
    }
    // The next retry is some minutes later, or a call runs now.
    let idle = rest < Duration::from_secs(1);
    for (object, (name, log)) in objects.iter().zip(&logs) {
        let before = log.count();
        cluster.patch(object, change.clone()).await?;
        sleep(Duration::from_secs(1)).await;
        assert!(!idle || log.count() > before, "{name}: no call after a change by another client");
    }
    running.stop().await
}

const RESTS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(10)];

#[kooper::test(start_paused = true)]
async fn a_call_that_writes_and_fails_is_retried_as_often_as_one_that_writes_nothing(cluster: Cluster) -> Result<()> {
    for rest in RESTS {
        ten_minutes(&cluster, |name| Controller::builder(name), &PLAIN, rest, json!({"data": {"theirs": "yes"}}))
            .await?;
    }
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn the_same_holds_for_a_kind_with_a_generation(cluster: Cluster) -> Result<()> {
    for rest in RESTS {
        ten_minutes(
            &cluster,
            |name| Controller::builder(name).crd(),
            &GENERATIONS,
            rest,
            json!({"spec": {"wares": "theirs"}}),
        )
        .await?;
    }
    Ok(())
}

#[kooper::test(start_paused = true)]
async fn a_change_that_arrives_together_with_the_echo_causes_a_call(cluster: Cluster) -> Result<()> {
    let (log, other) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let (noted, intruder, client) = (log.clone(), other.clone(), cluster.client());
    let handler = move |object: Arc<ConfigMap>, call: Call, patcher: Patcher<ConfigMap>| {
        let (log, intruder, client) = (noted.clone(), intruder.clone(), client.clone());
        async move {
            log.note(call.reasons().to_string());
            let own = json!({"metadata": {"annotations": {"calls": log.count().to_string()}}});
            patcher.patch(call.key(), merge(own)).await?;
            if intruder.swap(false, Ordering::SeqCst) {
                let configs: kube::Api<ConfigMap> =
                    kube::Api::namespaced(client, object.metadata.namespace.as_deref().unwrap_or_default());
                let theirs = kube::api::Patch::Merge(json!({"data": {"theirs": log.count().to_string()}}));
                configs.patch(call.key().name(), &kube::api::PatchParams::default(), &theirs).await?;
            }
            Err::<(), BoxError>("it cannot work".into())
        }
    };
    let minutes = Duration::from_secs(600);
    let builder = Controller::builder::<ConfigMap>("together").labels("app=together").resync(None);
    let running = cluster.run([builder.backoff(minutes, minutes).handler(handler).build()?]).await?;
    let mut object: ConfigMap = with_name("together");
    object.metadata.labels = Some([("app".to_owned(), "together".to_owned())].into());
    other.store(true, Ordering::SeqCst);
    cluster.create(&object).await?;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(log.lines(), ["added", "modified"]);
    sleep(Duration::from_secs(300)).await;
    assert_eq!(log.count(), 2, "nothing has changed since");
    running.stop().await
}
