//! A program that needs a bit of everything, for the tests of its least role.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use kooper::__private::v1::{Definition, Program};
use kooper::capability::Reader;
use kooper::kube::api::{Api, Patch, PatchParams, PostParams};
use kooper::prelude::*;
use kooper::{Controller, tracing};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "permissions.example.com", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
struct GadgetSpec {}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct GadgetStatus {
    works: bool,
}

/// Does everything that its rules say.
async fn gadgets(gadget: Arc<Gadget>, client: Client, _services: Reader<Service>) -> Result {
    let namespace = gadget.namespace().unwrap_or_default();
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let mut config = ConfigMap::default();
    config.metadata.generate_name = Some("made-".to_owned());
    config.metadata.owner_references = gadget.controller_owner_ref(&()).map(|owner| vec![owner]);
    // To block the deletion of the owner would need a rule of its own.
    for owner in config.metadata.owner_references.iter_mut().flatten() {
        owner.block_owner_deletion = None;
    }
    let made = configs.create(&PostParams::default(), &config).await?;
    configs.delete(&made.name_any(), &Default::default()).await?;
    let status = json!({"status": {"works": true}});
    let gadgets: Api<Gadget> = Api::namespaced(client, &namespace);
    gadgets.patch_status(&gadget.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
    tracing::info!("everything is done");
    Ok(())
}

struct Gadgets;

impl Definition for Gadgets {
    fn define(program: &mut Program) {
        let rules = ["configmaps: create, delete", "permissions.example.com/gadgets/status: patch"];
        program.add(
            Controller::builder::<Gadget>("gadgets")
                .install_crd()
                .owns::<ConfigMap>()
                .access(rules)
                .changed([kooper::object::Changed::Generation])
                .handler(gadgets),
        );
    }
}

struct Nodes;

impl Definition for Nodes {
    fn define(program: &mut Program) {
        program.add(Controller::builder::<Node>("nodes").handler(async || {}));
    }
}

kooper::main!(Gadgets, Nodes);
