//! Declared children lose neither objects that exist already nor the other slots. The same on the embedded server
//! and on the real one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kooper::apiserver::faults::Requests;
use kooper::children::{SlotExt, declare};
use kooper::prelude::*;
use kooper::testing::{Cluster, Running};
use kube::core::metadata::PartialObjectMeta;
use kube::{CustomResource, CustomResourceExt as _, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

use crate::fixture::{behind_a_proxy, run_with, with_name};

#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "children.example.com", version = "v1", kind = "Vault", namespaced, status = "VaultStatus")]
struct VaultSpec {
    /// The names of its keys.
    keys: Vec<String>,
}

#[derive(KubeSchema, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VaultStatus {
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
}

/// A child whose status has values in a later version that this one does not know.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "children.example.com", version = "v1", kind = "Lock", namespaced, status = "LockStatus")]
struct LockSpec {
    bolts: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct LockStatus {
    #[schemars(with = "String")]
    state: LockState,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum LockState {
    Open,
}

#[kooper::controller(
    resource = Vault, children = [password(once, adopt), lock(ready = holds), seal(keep, ready = holds), keys(prune)], deletion = ordered,
    finalizer = "children.example.com/vault", backoff = ("5ms", "50ms"), main = false,
)]
async fn vaults() {}

fn password(vault: &Vault) -> Result<Secret> {
    let metadata = json!({"name": format!("{}-password", vault.name_any())});
    Ok(from_value(json!({"metadata": metadata, "stringData": {"password": "generated"}}))?)
}

fn lock(vault: &Vault) -> Lock {
    Lock::new(&vault.name_any(), LockSpec { bolts: 3 })
}

fn seal(vault: &Vault) -> Lock {
    Lock::new(&format!("{}-seal", vault.name_any()), LockSpec { bolts: 1 })
}

fn holds(lock: &Lock) -> bool {
    lock.spec.bolts > 0
}

fn keys(vault: &Vault) -> Result<Vec<ConfigMap>> {
    let key = |name: &String| Ok(from_value(json!({"metadata": {"name": name}, "data": {"of": vault.name_any()}}))?);
    vault.spec.keys.iter().map(key).collect()
}

fn vault(keys: &[&str]) -> Vault {
    Vault::new("bank", VaultSpec { keys: keys.iter().map(|&key| key.to_owned()).collect() })
}

/// Returns whether the object is ready or not, with a message that has this part, in its current generation.
fn is(status: &'static str, part: &'static str) -> impl Fn(&Vault) -> bool {
    move |vault| {
        let conditions = vault.status.iter().flat_map(|status| &status.conditions);
        let is_current = |one: &&Condition| one.observed_generation == vault.metadata.generation;
        let ready = conditions.filter(is_current).find(|one| one.type_ == "Ready");
        ready.is_some_and(|ready| ready.status == status && ready.message.contains(part))
    }
}

/// Runs the controller, where locks are of another operator.
async fn run(cluster: &Cluster) -> Result<Running> {
    cluster.install_crd(&Lock::crd()).await?;
    cluster.install_crd(&Vault::crd()).await?;
    cluster.run([vaults::controller()?]).await
}

#[kooper::test]
async fn an_object_that_is_adopted_once_gets_an_owner_and_keeps_what_it_holds(cluster: Cluster) -> Result<()> {
    let running = run(&cluster).await?;
    let theirs =
        json!({"metadata": {"name": "bank-password", "labels": {"app": "bank"}}, "stringData": {"password": "real"}});
    let theirs = cluster.create(&from_value::<Secret>(theirs)?).await?;
    let vault = cluster.create(&vault(&["a"])).await?;
    cluster.wait(&vault, is("True", "")).await;
    let adopted = cluster.wait(&theirs, |secret: &Secret| !secret.owner_references().is_empty()).await;
    assert_eq!(adopted.data, theirs.data);
    assert_eq!((&*adopted.labels()["app"], &*adopted.labels()["kooper.rs/slot"]), ("bank", "password"));
    // Another client changes the labels: they are restored, and nothing else is changed.
    let depth = adopted.labels()["kooper.rs/depth"].clone();
    for labels in [json!({"kooper.rs/depth": "7"}), json!({"kooper.rs/slot": "keys"})] {
        cluster.patch(&adopted, json!({"metadata": {"labels": labels}})).await?;
        let labels =
            |secret: &Secret| ["slot", "depth"].map(|name| secret.labels()[&format!("kooper.rs/{name}")].clone());
        let restored = cluster.wait(&theirs, |secret: &Secret| labels(secret) == ["password", &*depth]).await;
        assert_eq!(restored.data, theirs.data);
    }
    running.stop().await
}

#[kooper::test]
async fn two_children_of_one_name_fail_their_slot(cluster: Cluster) -> Result<()> {
    let running = run(&cluster).await?;
    let vault = cluster.create(&vault(&["a", "b", "a"])).await?;
    cluster.wait(&vault, is("False", "/a` is also a child of another slot, or returned twice")).await;
    assert!(cluster.get::<ConfigMap>("b").await?.is_none(), "none of them is applied");
    assert!(cluster.get::<Lock>("bank").await?.is_some(), "the other slots go on");
    running.stop().await
}

#[kooper::test]
async fn a_child_that_does_not_decode_holds_up_its_own_slot_and_no_deletion(cluster: Cluster) -> Result<()> {
    let running = run(&cluster).await?;
    let vault = cluster.create(&vault(&["a"])).await?;
    let vault = cluster.wait(&vault, is("True", "")).await;
    for name in ["bank-seal", "bank"] {
        let lock = cluster.get::<Lock>(name).await?.ok_or("no lock")?;
        let jammed = cluster.patch_status(&lock, json!({"status": {"state": "Jammed"}})).await;
        assert!(jammed.is_err(), "the response does not decode either");
    }
    let vault = cluster.wait(&vault, is("False", "lock: it does not decode: ")).await;
    cluster.patch(&vault, json!({"spec": {"keys": ["a", "b"]}})).await?;
    let key = from_value::<ConfigMap>(json!({"metadata": {"name": "b", "namespace": vault.namespace()}}))?;
    cluster.wait(&key, |key: &ConfigMap| key.data.is_some()).await;
    cluster.delete(&vault).await?;
    cluster.wait_deleted(&vault).await;
    assert!(cluster.get::<Lock>("bank").await?.is_none(), "it goes with its owner");
    let kept = cluster.get::<PartialObjectMeta<Lock>>("bank-seal").await?.ok_or("no seal")?;
    assert!(kept.owner_references().is_empty(), "the flag `keep` needs no valid object either");
    running.stop().await
}

#[kooper::controller(
    resource = ConfigMap, labels = "example.com/far", namespaces = ["default", "edge"], children = [far], status = none,
    deletion = ordered, finalizer = "example.com/far", main = false,
)]
async fn travellers() {}

fn far(owner: &ConfigMap) -> Result<Secret> {
    Ok(from_value(json!({"metadata": {"name": owner.name_any(), "namespace": "edge"}}))?)
}

#[kooper::test]
async fn a_deletion_waits_for_the_list_of_each_namespace_in_which_children_may_be(cluster: Cluster) -> Result<()> {
    cluster.apply(&from_value::<Namespace>(json!({"metadata": {"name": "edge"}}))?).await?;
    let owner = json!({"metadata": {"name": "a", "labels": {"example.com/far": "yes"}}});
    let owner = cluster.create(&from_value::<ConfigMap>(owner)?).await?;
    let child = from_value::<Secret>(json!({"metadata": {"name": "a", "namespace": "edge"}}))?;
    let running = cluster.run([travellers::controller()?]).await?;
    cluster.wait(&child, |_: &Secret| true).await;
    running.stop().await?;

    cluster.delete(&owner).await?;
    let refused = cluster.faults().on(Requests::all().of("secrets").in_namespace("edge")).reply(403);
    let running = cluster.run([travellers::controller()?]).await?;
    let failed = "waits for the list of secrets in the namespace `edge`";
    let is_said = async {
        while !cluster
            .list::<Event>()
            .await?
            .iter()
            .any(|one| one.message.as_ref().is_some_and(|it| it.contains(failed)))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, kooper::BoxError>(())
    };
    tokio::time::timeout(Duration::from_secs(60), is_said).await??;
    assert!(cluster.get::<ConfigMap>("a").await?.is_some(), "its child is still there");
    refused.lift();
    cluster.wait_deleted(&owner).await;
    cluster.wait_deleted(&child).await;
    running.stop().await
}

fn copy(owner: &ConfigMap) -> Secret {
    with_name(&format!("{}-copy", owner.name_any()))
}

#[kooper::test(start_paused = true)]
async fn a_kept_child_outlives_its_owner_although_a_proxy_has_answered_its_release_with_404(
    cluster: Cluster,
) -> Result<()> {
    let (client, releases) = behind_a_proxy(cluster.client(), "secrets");
    let children = declare().child(copy.slot().keep()).build()?;
    let controller = ConfigMap::controller("copies").labels("copied=yes").handler(children.handler(async || {}));
    let controller = controller.cleanup("example.com/copies", children.deletion(async || {})).build()?;
    let running = run_with(Some(client), [controller]);
    let owner = json!({"metadata": {"name": "one", "labels": {"copied": "yes"}}});
    let owner = cluster.create(&from_value::<ConfigMap>(owner)?).await?;
    cluster.wait("one-copy", |_: &Secret| true).await;
    cluster.delete(&owner).await?;
    cluster.wait_deleted(&owner).await;
    let kept: Secret = cluster.get("one-copy").await?.ok_or("it was deleted with its owner")?;
    assert!(kept.owner_references().is_empty(), "{kept:?}");
    // Children are applied by another kind of patch.
    assert_eq!(releases.load(Ordering::SeqCst), 2);
    Ok(running.stop().await?)
}
