//! A custom resource: its CRD, children, related objects, readers, status, and one capability of each verb.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kooper::__private::v1::Program;
use kooper::Changed;
use kooper::Controller;
use kooper::capability::PatchBody;
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fresh;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "permissions.example.com", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
pub(super) struct GadgetSpec {}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct GadgetStatus {
    seen: String,
}

pub(super) fn define(program: &mut Program) {
    program.add(
        Controller::builder::<Gadget>("gadgets")
            .install_crd()
            .watches(|_: &LimitRange| None::<ObjectKey>)
            .changed([Changed::Generation])
            .handler(gadgets),
    );
    program.add(Controller::builder::<Gadget>("verbs").install_crd().changed([Changed::Generation]).handler(verbs));
}

async fn gadgets(
    gadget: Arc<Gadget>,
    configs: OwnedApplier<ConfigMap>,
    _slices: Reader<EndpointSlice>,
    statuses: StatusWriter<Gadget>,
    recorder: Recorder,
) -> Result {
    // The same twice: one Event, and then its count.
    recorder.normal("Seen", fresh());
    recorder.normal("Seen", fresh());
    let mut config = ConfigMap::default();
    config.metadata.name = Some(format!("{}-{}", gadget.name_any(), fresh()));
    configs.apply_owned(&*gadget, &config).await?;
    statuses.apply_status(&gadget, &GadgetStatus { seen: fresh() }).await?;
    tracing::info!("gadgets: done");
    Ok(())
}

async fn verbs(
    gadget: Arc<Gadget>,
    secrets: Getter<Secret>,
    patcher: Patcher<Secret>,
    creator: Creator<Lease>,
    deleter: Deleter<Lease>,
    evictor: Evictor,
) -> Result {
    let key = ObjectKey::namespaced(&gadget.namespace().unwrap_or_default(), &gadget.name_any());
    if secrets.fetch(&key).await?.is_none() {
        return Err(HandlerError::retry_after(Duration::from_secs(1), "the Secret is not there yet").into());
    }
    patcher.patch(&key, PatchBody::merge(json!({"metadata": {"annotations": {"seen": fresh()}}}))).await?;
    let mut lease = Lease::default();
    lease.metadata.generate_name = Some("made-".to_owned());
    let made = creator.create(&lease).await?;
    deleter.delete_object(&made).await?;
    let mut pod = Pod::default();
    pod.metadata.name = Some(gadget.name_any());
    pod.metadata.namespace = gadget.namespace();
    pod.metadata.uid = Some("gone".to_owned());
    evictor.evict(&pod).await?;
    tracing::info!("verbs: done");
    Ok(())
}
