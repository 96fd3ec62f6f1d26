//! Declared children among other clients: what happens to them, and what the status and the Events say. The same on the
//! embedded server and on the real one.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::kube::api::{Api, DeleteParams, Patch, PatchParams, PropagationPolicy};
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::{CustomResource, CustomResourceExt as _, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};

use crate::fixture::wait_for_events;

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "children.example.com", version = "v1", kind = "Stall", namespaced, status = "StallStatus")]
struct StallSpec {
    /// The name of the ConfigMap with its sign, which another stall can have, too.
    sign: String,
    /// The immutable selector of its Deployments.
    app: String,
    /// The pods of its web server are not scheduled.
    #[serde(default)]
    gated: bool,
}

#[derive(KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StallStatus {
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

#[kooper::controller(
    resource = Stall, children = [sign, notes(adopt), back(recreate), web(sign), front(after = web)],
    deletion = ordered, finalizer = "children.example.com/stall", backoff = ("5ms", "50ms"), main = false,
)]
async fn stalls() {}

#[kooper::controller(
    resource = Stall, children = [permit],
    deletion = ordered, finalizer = "children.example.com/permits", backoff = ("5ms", "50ms"), main = false,
)]
async fn permits() {}

#[kooper::controller(
    resource = Stall, name = "booths", children = [sign(keep), notes(adopt), web(sign), front(after = web)],
    deletion = ordered, finalizer = "children.example.com/booth", backoff = ("5ms", "50ms"), main = false,
)]
async fn booths() {}

/// The same controller in a later version of the program.
#[kooper::controller(
    resource = Stall, name = "booths", children = [back], previous_children = [ConfigMap, Deployment, Service],
    deletion = ordered, finalizer = "children.example.com/booth", backoff = ("5ms", "50ms"), main = false,
)]
async fn later_booths() {}

/// A cluster-scoped child.
fn permit(stall: &Stall) -> Result<ClusterRole> {
    Ok(from_value(json!({"metadata": {"name": permit_of(stall)}}))?)
}

fn permit_of(stall: &Stall) -> String {
    format!("{}-{}", stall.namespace().unwrap_or_default(), stall.name_any())
}

fn sign(stall: &Stall) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": stall.spec.sign}, "data": {"sign": stall.name_any()}}))?)
}

fn notes(stall: &Stall) -> Result<ConfigMap> {
    Ok(from_value(json!({"metadata": {"name": name(stall, "notes")}, "data": {"of": stall.name_any()}}))?)
}

fn back(stall: &Stall) -> Result<Deployment> {
    deployment(stall, "back", 0, &json!([]))
}

fn web(stall: &Stall, _: &ConfigMap) -> Result<Deployment> {
    let gates = if stall.spec.gated { json!([{"name": "example.com/closed"}]) } else { json!([]) };
    deployment(stall, "web", 1, &gates)
}

fn front(stall: &Stall) -> Result<Service> {
    let spec = json!({"selector": {"app": stall.spec.app}, "ports": [{"port": 80}]});
    Ok(from_value(json!({"metadata": {"name": name(stall, "front")}, "spec": spec}))?)
}

fn name(stall: &Stall, part: &str) -> String {
    format!("{}-{part}", stall.name_any())
}

fn deployment(stall: &Stall, part: &str, replicas: u32, gates: &Value) -> Result<Deployment> {
    let labels = json!({"app": stall.spec.app, "part": part});
    let containers = json!([{"name": "main", "image": "example.com/stall"}]);
    Ok(from_value(json!({
        "metadata": {"name": name(stall, part)},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers, "schedulingGates": gates}},
        },
    }))?)
}

fn stall(name: &str, gated: bool) -> Stall {
    Stall::new(name, StallSpec { sign: format!("{name}-sign"), app: "a".to_owned(), gated })
}

/// The condition of this type, if it is about the current generation.
fn condition<'a>(stall: &'a Stall, name: &str) -> Option<&'a Condition> {
    let conditions = stall.status.iter().flat_map(|status| &status.conditions);
    let mut current = conditions.filter(|one| one.observed_generation == stall.metadata.generation);
    current.find(|one| one.type_ == name)
}

fn is_ready(stall: &Stall) -> bool {
    condition(stall, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns whether the object is not ready for this reason, with a message that has all of these parts.
fn is_not_ready(reason: &str, parts: &[&str]) -> impl Fn(&Stall) -> bool {
    move |stall| {
        let ready = condition(stall, "Ready").filter(|ready| ready.status == "False" && ready.reason == reason);
        ready.is_some_and(|ready| parts.iter().all(|part| ready.message.contains(part)))
    }
}

async fn get<T: Kind>(cluster: &Cluster, name: &str) -> Result<T> {
    Ok(cluster.get(name).await?.ok_or_else(|| format!("there is no {} `{name}`", T::kind(&())))?)
}

/// The text of the first Event with this reason, once it is recorded.
async fn event(cluster: &Cluster, reason: &str) -> String {
    let event = wait_for_events(cluster, reason, |events| !events.is_empty()).await.remove(0);
    format!("{} {}", event.type_.unwrap_or_default(), event.message.unwrap_or_default())
}

/// Deletes an owner with this policy, and waits until it is gone.
async fn delete(cluster: &Cluster, stall: &Stall, policy: PropagationPolicy) -> Result<()> {
    let stalls: Api<Stall> = Api::namespaced(cluster.client(), cluster.namespace());
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    drop(stalls.delete(&stall.name_any(), &params).await?);
    cluster.wait_deleted(stall).await;
    Ok(())
}

/// The names of the children that are left, and of their pods.
async fn left(cluster: &Cluster) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut note = |meta: &kube::core::ObjectMeta| {
        if meta.owner_references.is_some() {
            names.extend(meta.name.clone());
        }
    };
    cluster.list::<ConfigMap>().await?.iter().for_each(|one| note(one.meta()));
    cluster.list::<Deployment>().await?.iter().for_each(|one| note(one.meta()));
    cluster.list::<Service>().await?.iter().for_each(|one| note(one.meta()));
    cluster.list::<Pod>().await?.iter().for_each(|one| note(one.meta()));
    Ok(names)
}

#[kooper::test(stalls)]
async fn a_child_is_created_when_those_before_it_are_ready_and_the_status_names_what_is_awaited(
    cluster: Cluster,
) -> Result<()> {
    let stall = cluster.create(&stall("corner", true)).await?;
    cluster.wait(&stall, is_not_ready("ChildNotReady", &["waits for web: 0 of 1 are ready"])).await;
    let reconciling = get::<Stall>(&cluster, "corner").await?;
    assert!(condition(&reconciling, "Reconciling").is_some_and(|one| one.status == "True"), "{reconciling:?}");
    assert!(cluster.get::<Service>("corner-front").await?.is_none());

    for pod in cluster.list::<Pod>().await? {
        cluster.patch(&pod, json!({"spec": {"schedulingGates": null}})).await?;
    }
    let ready = cluster.wait(&stall, is_ready).await;
    assert!(condition(&ready, "Reconciling").is_none(), "{ready:?}");
    let (web, front) =
        (get::<Deployment>(&cluster, "corner-web").await?, get::<Service>(&cluster, "corner-front").await?);
    assert!(front.creation_timestamp() >= web.creation_timestamp());
    assert_eq!(front.labels()["kooper.rs/depth"], "2");
    Ok(())
}

#[kooper::test(stalls)]
async fn an_owner_that_is_deleted_while_it_is_created_leaves_no_child(cluster: Cluster) -> Result<()> {
    let stall = cluster.create(&stall("corner", true)).await?;
    cluster.wait(&stall, is_not_ready("ChildNotReady", &["waits for web"])).await;
    cluster.delete(&stall).await?;
    cluster.wait_deleted(&stall).await;
    assert_eq!(left(&cluster).await?, [""; 0]);
    Ok(())
}

#[kooper::test(stalls)]
async fn an_owner_that_is_deleted_in_the_foreground_is_gone_with_a_warning(cluster: Cluster) -> Result<()> {
    let stall = cluster.create(&stall("corner", false)).await?;
    cluster.wait(&stall, is_ready).await;
    delete(&cluster, &stall, PropagationPolicy::Foreground).await?;
    assert_eq!(left(&cluster).await?, [""; 0]);
    let text = "Warning it is deleted in the foreground: Kubernetes deletes its children at once, in any order";
    assert_eq!(event(&cluster, "Unordered").await, text);
    Ok(())
}

#[kooper::test(stalls)]
async fn the_children_of_an_owner_that_is_deleted_with_the_policy_orphan_are_kept(cluster: Cluster) -> Result<()> {
    let stall = cluster.create(&stall("corner", false)).await?;
    cluster.wait(&stall, is_ready).await;
    delete(&cluster, &stall, PropagationPolicy::Orphan).await?;
    let sign = get::<ConfigMap>(&cluster, "corner-sign").await?;
    let (web, front) =
        (get::<Deployment>(&cluster, "corner-web").await?, get::<Service>(&cluster, "corner-front").await?);
    for meta in [sign.meta(), web.meta(), front.meta()] {
        assert!(meta.owner_references.is_none() && meta.deletion_timestamp.is_none(), "{meta:?}");
    }
    Ok(())
}

#[kooper::test(permits)]
async fn a_cluster_scoped_child_has_no_owner_reference_and_is_deleted_with_its_owner(cluster: Cluster) -> Result<()> {
    let stall = cluster.create(&stall("corner", false)).await?;
    cluster.wait(&stall, is_ready).await;
    let permit = get::<ClusterRole>(&cluster, &permit_of(&stall)).await?;
    assert!(permit.owner_references().is_empty(), "{permit:?}");
    cluster.delete(&stall).await?;
    cluster.wait_deleted(&stall).await;
    let left: Option<ClusterRole> = cluster.get(&*permit_of(&stall)).await?;
    assert!(left.is_none(), "{left:?}");
    Ok(())
}

#[kooper::test(stalls)]
async fn another_selector_stalls_the_owner_unless_the_child_is_recreated(cluster: Cluster) -> Result<()> {
    let stall = cluster.create(&stall("corner", false)).await?;
    cluster.wait(&stall, is_ready).await;
    let [web, back] = ["corner-web", "corner-back"].map(|name| get::<Deployment>(&cluster, name));
    let (web, back) = (web.await?, back.await?);
    cluster.patch(&stall, json!({"spec": {"app": "b"}})).await?;

    let says = is_not_ready("ChildRejected", &["web: ", "field is immutable", "write `recreate`"]);
    let stalled = cluster.wait(&stall, says).await;
    assert!(condition(&stalled, "Stalled").is_some_and(|one| one.status == "True"), "{stalled:?}");
    let selector = |one: &Deployment| one.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
    let new = |one: &Deployment| selector(one).is_some_and(|labels| labels["app"] == "b");
    cluster.wait(&back, |now: &Deployment| now.uid() != back.uid() && new(now)).await;
    assert_eq!(get::<Deployment>(&cluster, "corner-web").await?.uid(), web.uid());

    // As the message says, a person may also delete it.
    cluster.delete(&web).await?;
    cluster.wait(&web, |now: &Deployment| now.uid() != web.uid() && new(now)).await;
    cluster.wait(&stall, is_ready).await;
    Ok(())
}

#[kooper::test(stalls)]
async fn a_child_that_kubectl_edits_becomes_what_its_function_returns(cluster: Cluster) -> Result<()> {
    let stall = cluster.create(&stall("corner", false)).await?;
    cluster.wait(&stall, is_ready).await;
    let before = get::<Deployment>(&cluster, "corner-web").await?;
    // The request of `kubectl edit`.
    let edit = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    let labels = json!({"kooper.rs/slot": "another", "kooper.rs/depth": null});
    let body = json!({"metadata": {"labels": labels}, "spec": {"replicas": 0, "paused": true}});
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), cluster.namespace());
    let edited = deployments.patch("corner-web", &edit, &Patch::Strategic(body)).await?;

    let is_back = |now: &Deployment| now.labels() == before.labels() && now.spec.as_ref().unwrap().replicas == Some(1);
    let now = cluster.wait(&edited, is_back).await;
    assert_eq!(now.uid(), before.uid());
    assert_eq!(now.spec.and_then(|spec| spec.paused), Some(true), "a field that the function does not set is kept");
    cluster.patch(&edited, json!({"spec": {"paused": null}})).await?;
    cluster.wait(&stall, is_ready).await;
    Ok(())
}

#[kooper::test(stalls)]
async fn an_object_that_exists_is_adopted_if_the_slot_says_so_and_otherwise_left_alone(cluster: Cluster) -> Result<()> {
    let stall = stall("corner", false);
    let (theirs, notes) = (cluster.create(&sign(&stall)?).await?, cluster.create(&notes(&stall)?).await?);
    let stall = cluster.create(&stall).await?;
    let parts = ["sign: ConfigMap `", "corner-sign` exists and is not controlled by Stall", "adopt it"];
    cluster.wait(&stall, is_not_ready("SlotFailed", &parts)).await;
    let warning = event(&cluster, "ErrResourceExists").await;
    assert!(warning.starts_with("Warning") && parts[1..].iter().all(|part| warning.contains(part)), "{warning}");
    let adopted = cluster.wait(&notes, |notes: &ConfigMap| notes.owner_references().len() == 1).await;
    assert_eq!(adopted.labels()["kooper.rs/slot"], "notes");
    assert_eq!(adopted.labels()["kooper.rs/adopted"], "true");
    assert_eq!(get::<ConfigMap>(&cluster, "corner-sign").await?.resource_version(), theirs.resource_version());
    assert!(cluster.get::<Deployment>("corner-web").await?.is_none(), "it depends on the sign");

    cluster.delete(&theirs).await?;
    cluster.wait(&stall, is_ready).await;
    assert_ne!(get::<ConfigMap>(&cluster, "corner-sign").await?.uid(), theirs.uid());
    Ok(())
}

#[kooper::test(stalls)]
async fn a_child_that_two_owners_name_belongs_to_the_first_until_that_one_is_gone(cluster: Cluster) -> Result<()> {
    let first = cluster.create(&stall("first", false)).await?;
    cluster.wait(&first, is_ready).await;
    let shared = get::<ConfigMap>(&cluster, "first-sign").await?;
    let mut second = stall("second", false);
    second.spec.sign = "first-sign".to_owned();
    let second = cluster.create(&second).await?;
    let parts = ["sign: ConfigMap `", "first-sign` exists and is not controlled by Stall", "Stall `first`"];
    cluster.wait(&second, is_not_ready("SlotFailed", &parts)).await;
    assert_eq!(get::<ConfigMap>(&cluster, "first-sign").await?.resource_version(), shared.resource_version());
    assert!(is_ready(&get(&cluster, "first").await?));

    cluster.delete(&first).await?;
    let second = cluster.wait(&second, is_ready).await;
    let now = get::<ConfigMap>(&cluster, "first-sign").await?;
    assert_eq!(
        now.owner_references().iter().map(|owner| owner.uid.clone()).collect::<Vec<_>>(),
        [second.uid().unwrap()]
    );
    Ok(())
}

#[kooper::test]
async fn children_of_slots_that_were_removed_are_pruned_unless_they_were_adopted_or_kept(
    cluster: Cluster,
) -> Result<()> {
    cluster.install_crd(&Stall::crd()).await?;
    let stall = stall("corner", false);
    let notes = cluster.create(&notes(&stall)?).await?;
    let running = cluster.run([booths::controller()?]).await?;
    let stall = cluster.create(&stall).await?;
    cluster.wait(&stall, is_ready).await;
    let sign = get::<ConfigMap>(&cluster, "corner-sign").await?;
    let (web, front) =
        (get::<Deployment>(&cluster, "corner-web").await?, get::<Service>(&cluster, "corner-front").await?);
    running.stop().await?;

    let running = cluster.run([later_booths::controller()?]).await?;
    cluster.wait_deleted(&front).await;
    cluster.wait_deleted(&web).await;
    assert!(event(&cluster, "Kept").await.starts_with("Normal"));
    // After a reconciliation in which nothing else is left to prune.
    cluster.patch(&stall, json!({"spec": {"sign": "another"}})).await?;
    cluster.wait(&stall, is_ready).await;
    for child in [&sign, &notes] {
        let now = get::<ConfigMap>(&cluster, &child.name_any()).await?;
        assert_eq!((now.uid(), now.metadata.deletion_timestamp), (child.uid(), None));
    }

    cluster.delete(&stall).await?;
    cluster.wait_deleted(&stall).await;
    assert!(get::<ConfigMap>(&cluster, "corner-sign").await?.owner_references().is_empty(), "it is kept");
    assert!(cluster.get::<ConfigMap>("corner-notes").await?.is_none(), "what was adopted is deleted with its owner");
    running.stop().await
}
