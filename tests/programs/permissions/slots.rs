//! Declared children with the flags that need fewer permissions, and their ordered deletion.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use k8s_openapi::serde::de::DeserializeOwned;
use kooper::__private::v1::Program;
use kooper::capability::PatchBody;
use kooper::children::{External, SlotExt, declare};
use kooper::prelude::*;
use serde_json::{Value, json};

use crate::fresh;

pub(super) fn define(program: &mut Program) {
    let children = declare().child(policy).child(budget.slot().keep()).child(capacity.slot().once());
    let children = children.child(replicas).build().expect("the slots are right");
    let (handler, deletion) = (children.handler(delete), children.deletion(clean));
    let controller = EndpointSlice::controller("slices").labels("slots=yes").handler(handler);
    program.add(controller.cleanup("permissions.example.com/slots", deletion));
}

/// A child of this name, which differs in each process.
fn child<T: DeserializeOwned>(slice: &EndpointSlice, rest: &Value) -> Result<T> {
    let mut child = json!({"metadata": {"name": slice.name_any(), "annotations": {"process": fresh()}}});
    for (field, value) in rest.as_object().into_iter().flatten() {
        child[field] = value.clone();
    }
    Ok(serde_json::from_value(child)?)
}

fn policy(slice: &EndpointSlice) -> Result<NetworkPolicy> {
    child(slice, &json!({"spec": {"podSelector": {}}}))
}

fn budget(slice: &EndpointSlice) -> Result<PodDisruptionBudget> {
    child(slice, &json!({"spec": {"minAvailable": 1}}))
}

fn capacity(slice: &EndpointSlice) -> Result<CSIStorageCapacity> {
    child(slice, &json!({"storageClassName": "none"}))
}

fn replicas(slice: &EndpointSlice) -> External<ReplicaSet> {
    External::new(ObjectKey::of(slice))
}

/// Writes the object, so that the finalizer must be removed from a newer version.
async fn clean(slice: Arc<EndpointSlice>, slices: Patcher<EndpointSlice>) -> Result {
    slices.patch_object(&slice, PatchBody::merge(json!({"metadata": {"annotations": {"process": fresh()}}}))).await?;
    tracing::info!("slices: done");
    Ok(())
}

/// Deletes the object, and so its children.
async fn delete(slice: Arc<EndpointSlice>, slices: Deleter<EndpointSlice>) -> Result {
    Ok(slices.delete_object(&slice).await?)
}
