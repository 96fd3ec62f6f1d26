//! Declared children that the API server refuses: nothing else suffers from it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::apiserver::faults::{Reply, Requests, Verb};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};
use tokio::time::timeout;

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "children.example.com", version = "v1", kind = "Quay", namespaced, status = "QuayStatus")]
struct QuaySpec {
    /// The port of its gate on each node.
    port: u16,
    lamps: u16,
}

#[derive(KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuayStatus {
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// The calls for the object with this name, whose key cannot be changed.
static CALLS: AtomicUsize = AtomicUsize::new(0);
const POLLED: &str = "polled";

/// The handler panics for the object with this name.
const MINED: &str = "mined";

/// With so many lamps, a child function panics.
const TOO_MANY: u16 = 100;

#[kooper::controller(
    resource = Quay, children = [gate(recreate), lamps(prune), key], resync = off, backoff = ("5ms", "50ms"),
    main = false,
)]
async fn quays(quay: Arc<Quay>) -> Action {
    assert_ne!(quay.name_any(), MINED, "the handler panics");
    if quay.name_any() == POLLED {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    Action::requeue_after(Duration::from_secs(10))
}

fn gate(quay: &Quay) -> Result<Service> {
    let ports = json!([{"port": 80, "nodePort": quay.spec.port}]);
    let spec = json!({"type": "NodePort", "selector": {"app": "gate"}, "ports": ports});
    Ok(from_value(json!({"metadata": {"name": quay.name_any()}, "spec": spec}))?)
}

fn lamps(quay: &Quay) -> Result<Vec<ConfigMap>> {
    assert!(quay.spec.lamps < TOO_MANY, "the function panics");
    let lamp = |number| from_value(json!({"metadata": {"name": format!("{}-{number}", quay.name_any())}}));
    Ok((0..quay.spec.lamps).map(lamp).collect::<Result<_, _>>()?)
}

fn key(quay: &Quay) -> Result<Secret> {
    let of = if quay.name_any() == POLLED { quay.spec.port.to_string() } else { String::new() };
    Ok(from_value(json!({"metadata": {"name": quay.name_any()}, "immutable": true, "stringData": {"of": of}}))?)
}

fn quay(name: &str, port: u16) -> Quay {
    Quay::new(name, QuaySpec { port, lamps: 1 })
}

fn says<'a>(status: &'a str, parts: &'a [&'a str]) -> impl Fn(&Quay) -> bool + 'a {
    move |quay| {
        let conditions = quay.status.iter().flat_map(|status| &status.conditions);
        let mut ready =
            conditions.filter(|one| one.type_ == "Ready" && one.observed_generation == quay.metadata.generation);
        ready.any(|ready| ready.status == status && parts.iter().all(|part| ready.message.contains(part)))
    }
}

#[kooper::test(quays)]
async fn a_service_that_is_recreated_stays_while_only_its_port_is_refused(cluster: Cluster) -> Result<()> {
    let quay = cluster.create(&quay("east", 30_080)).await?;
    cluster.wait(&quay, says("True", &[])).await;
    let before: Service = cluster.get("east").await?.ok_or("there is a Service")?;
    cluster.patch(&quay, json!({"spec": {"port": 8080}})).await?;
    cluster.wait(&quay, says("False", &["gate: ", "8080"])).await;
    let now: Service = cluster.get("east").await?.ok_or("it was deleted")?;
    assert_eq!((now.uid(), now.metadata.deletion_timestamp), (before.uid(), None));
    cluster.patch(&quay, json!({"spec": {"port": 30_081}})).await?;
    cluster.wait(&quay, says("True", &[])).await;
    Ok(())
}

#[kooper::test(quays, start_paused = true)]
async fn other_slots_of_all_owners_go_on_while_a_permission_of_one_slot_is_missing(cluster: Cluster) -> Result<()> {
    let cluster = cluster.with_timeout(Duration::from_secs(60));
    let fault = cluster.faults().on(Requests::writes().of("secrets")).reply(403);
    let names = ["a", "b", "c", "d", "e", "f"];
    for (name, port) in names.iter().zip(30_100..) {
        let quay = cluster.create(&quay(name, port)).await?;
        cluster.wait(&quay, says("False", &["key: "])).await;
    }
    for name in names {
        let lamp: ConfigMap = cluster.get(&*format!("{name}-0")).await?.ok_or("there is a lamp")?;
        cluster.delete(&lamp).await?;
        let again = cluster.wait(&lamp, |now: &ConfigMap| now.uid() != lamp.uid());
        timeout(Duration::from_secs(2), again).await?;
    }
    fault.lift();
    for name in names {
        let quay: Quay = cluster.get(name).await?.ok_or("it exists")?;
        timeout(Duration::from_secs(40), cluster.wait(&quay, says("True", &[]))).await?;
    }
    Ok(())
}

#[kooper::test(quays)]
async fn a_panic_of_a_function_or_of_the_handler_holds_up_no_other_slot_and_the_owner_is_not_ready(
    cluster: Cluster,
) -> Result<()> {
    let quay = cluster.create(&quay("north", 30_095)).await?;
    cluster.wait(&quay, says("True", &[])).await;
    let gate: Service = cluster.get("north").await?.ok_or("there is a Service")?;
    cluster.patch(&quay, json!({"spec": {"port": 30_096, "lamps": TOO_MANY}})).await?;
    cluster.wait(&quay, says("False", &["lamps: it panicked at ", "refusals.rs"])).await;
    let port = |gate: &Service| gate.spec.as_ref()?.ports.as_ref()?.first()?.node_port;
    cluster.wait(&gate, |gate: &Service| port(gate) == Some(30_096)).await;
    let mined = cluster.create(&self::quay(MINED, 30_097)).await?;
    cluster.wait(&mined, says("False", &["it panicked at ", "refusals.rs"])).await;
    cluster.patch(&quay, json!({"spec": {"lamps": 1}})).await?;
    cluster.wait(&quay, says("True", &[])).await;
    Ok(())
}

#[kooper::test(quays, start_paused = true)]
async fn a_handler_goes_on_polling_while_a_child_cannot_be_changed(cluster: Cluster) -> Result<()> {
    let quay = cluster.create(&quay(POLLED, 30_090)).await?;
    cluster.wait(&quay, says("True", &[])).await;
    cluster.patch(&quay, json!({"spec": {"port": 30_091}})).await?;
    cluster.wait(&quay, says("False", &["key: ", "immutable", "write `recreate`"])).await;
    let before = CALLS.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(65)).await;
    let calls = CALLS.load(Ordering::SeqCst) - before;
    assert!((5..=8).contains(&calls), "{calls} calls in a minute");
    Ok(())
}

#[kooper::test(quays, start_paused = true)]
async fn a_deletion_that_a_webhook_denies_is_reported_whatever_its_code(cluster: Cluster) -> Result<()> {
    let quay = cluster.create(&quay("east", 30_070)).await?;
    cluster.wait(&quay, says("True", &[])).await;
    let denied = "admission webhook \"lamps.example.com\" denied the request: it is still lit";
    let reply = Reply::new(409).reason("Conflict").message(denied);
    let fault = cluster.faults().on(Verb::Delete.of("configmaps")).reply(reply);
    cluster.patch(&quay, json!({"spec": {"lamps": 0}})).await?;
    cluster.wait(&quay, says("False", &["it is still lit"])).await;
    fault.lift();
    cluster.wait(&quay, says("True", &[])).await;
    Ok(())
}
