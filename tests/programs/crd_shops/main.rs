//! A program of two kinds, for the tests of its commands: it installs one CRD, and the user installs the other.

use kooper::__private::v1::{Definition, Program};
use kooper::Controller;
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "shops.example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {
    #[serde(default)]
    size: i32,
    #[serde(default)]
    owner: String,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "shops.example.com", version = "v1", kind = "Stall", namespaced)]
struct StallSpec {
    #[serde(default)]
    size: i32,
    #[serde(default)]
    owner: String,
}

struct Shops;

impl Definition for Shops {
    fn define(program: &mut Program) {
        async fn handle<K: ResourceExt>(object: Arc<K>) {
            tracing::info!(name = object.name_any(), "seen");
        }
        program.add(Controller::builder::<Shop>("shops").crd().handler(handle::<Shop>));
        program.add(Controller::builder::<Stall>("stalls").install_crd().handler(handle::<Stall>));
    }
}

kooper::main!(Shops);
