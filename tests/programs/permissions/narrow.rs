//! Caches and requests of some objects only, whose rules are limited to names and namespaces where RBAC allows it.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kooper::__private::v1::Program;
use kooper::capability::{All, PatchBody, Subset};
use kooper::prelude::*;
use kooper::{Changed, Controller};
use serde_json::{from_value, json};

use crate::fresh;
use crate::gadgets::Gadget;

pub(super) fn define(program: &mut Program) {
    program.add(
        Controller::builder::<Gadget>("narrow")
            .changed([Changed::Generation])
            .owns(NetworkPolicy::all().labels("part=narrow").metadata_only())
            .handler(narrow),
    );
}

/// The Ingress of all gadgets.
struct Front;

impl Subset for Front {
    type Object = Ingress;

    fn select(all: All<Ingress>) -> All<Ingress> {
        all.names(["front"]).namespaces(["default"])
    }
}

/// The budget of the lamp.
struct OfLamp;

impl Subset for OfLamp {
    type Object = PartialObjectMeta<PodDisruptionBudget>;

    fn select(all: All<Self::Object>) -> All<Self::Object> {
        all.names(["lamp"])
    }
}

/// Lets a child leave the selection of `owns`, and applies it again when no cache has it.
async fn narrow(
    gadget: Arc<Gadget>,
    policies: OwnedApplier<NetworkPolicy>,
    patcher: Patcher<NetworkPolicy>,
    fronts: Getter<Ingress, Front>,
    _budgets: Reader<PartialObjectMeta<PodDisruptionBudget>, OfLamp>,
) -> Result<Action> {
    static LEFT: AtomicBool = AtomicBool::new(false);
    fronts.fetch(&ObjectKey::namespaced("default", "front")).await?;
    let name = format!("{}-{}", gadget.name_any(), fresh());
    let policy: NetworkPolicy = from_value(json!({
        "metadata": {"name": name, "labels": {"part": "narrow"}}, "spec": {"podSelector": {}},
    }))?;
    let applied = policies.apply_owned(&gadget, &policy).await?;
    if !LEFT.swap(true, Ordering::Relaxed) {
        let leave = PatchBody::merge(json!({"metadata": {"labels": {"part": null}}}));
        patcher.patch_object(&applied, leave).await?;
        return Ok(Action::requeue_after(Duration::from_millis(10)));
    }
    tracing::info!("narrow: done");
    Ok(Action::done())
}
