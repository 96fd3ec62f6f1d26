//! Kinds of every sort, and lists of them.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {
    flavours: u32,
}

#[kooper::controller(resource = Shop, namespace = "malls", main = false)]
async fn a_custom_resource(shop: Arc<Shop>) {
    let _ = shop.spec.flavours;
}

#[kooper::controller(resource = Node, main = false)]
async fn a_kind_of_the_cluster(_: Arc<Node>) {}

#[kooper::controller(resource = k8s_openapi::api::core::v1::Secret, main = false)]
async fn a_path(_: Arc<k8s_openapi::api::core::v1::Secret>) {}

#[kooper::controller(resource = [Pod, ConfigMap, k8s_openapi::api::core::v1::Service], main = false)]
async fn each<K: Kind>(_: Arc<K>) {}

#[kooper::controller(resource = [Pod, Shop], namespace = "malls", name = "bound", when = any, main = false)]
async fn with_bounds<K>(object: Arc<K>, _: Call) -> Result<Action>
where
    K: Kind + Clone + Debug,
{
    drop(object);
    Ok(Action::done())
}

fn any<K>(_: &K) -> bool {
    true
}

#[kooper::controller(resource = [Pod, Node], metadata_only, main = false)]
async fn of_metadata<K: Kind>(_: Arc<PartialObjectMeta<K>>) {}

#[test]
fn each_is_defined() {
    assert_eq!(names::<a_custom_resource>(), ["a-custom-resource"]);
    assert_eq!(names::<a_kind_of_the_cluster>(), ["a-kind-of-the-cluster"]);
    assert_eq!(names::<a_path>(), ["a-path"]);
    assert_eq!(names::<each>(), ["each-pod", "each-configmap", "each-service"]);
    assert_eq!(names::<with_bounds>(), ["bound-pod", "bound-shop"]);
    assert_eq!(a_custom_resource::controller().expect("it has one").name(), "a-custom-resource");
    assert_eq!(each::controllers().expect("it has three").len(), 3);
    assert_eq!(names::<of_metadata>(), ["of-metadata-pod", "of-metadata-node"]);
}
