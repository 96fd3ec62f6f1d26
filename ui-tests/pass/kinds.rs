//! Kinds of every sort, and lists of them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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

#[derive(kooper::Partial)]
#[partial(of = Pod)]
struct PodNode {
    metadata: ObjectMeta,
    spec: Option<PodNodeSpec>,
}

#[derive(Default, kooper::Partial)]
#[partial(of = k8s_openapi::api::core::v1::PodSpec, crate = kooper)]
struct PodNodeSpec {
    node_name: Option<String>,
}

#[kooper::controller(resource = PodNode, namespace = "malls", main = false)]
async fn a_part_of_a_kind(pod: Arc<PodNode>, pods: Deleter<PodNode>) -> Result<()> {
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        pods.delete_object(&pod).await?;
    }
    Ok(())
}

#[derive(kooper::Partial)]
#[partial(of = Shop)]
struct Flavoured {
    metadata: ObjectMeta,
    spec: Flavours,
}

#[derive(Default, kooper::Partial)]
#[partial(of = ShopSpec)]
struct Flavours {
    #[partial(rename = "flavours")]
    flavours: u32,
}

#[kooper::controller(resource = Flavoured, main = false)]
async fn a_part_of_a_custom_resource(shop: Arc<Flavoured>) {
    let _ = shop.spec.flavours;
}

#[derive(kooper::Partial)]
#[partial(of = JSONSchemaProps)]
struct Shape {
    properties: Option<BTreeMap<String, Self>>,
}

#[test]
fn a_part_has_the_fields_of_the_object() {
    let json = r#"{"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "x"}}"#;
    let pod: PodNode = serde_json::from_str(json).expect("it is a pod");
    assert_eq!(pod.name_any(), "a");
    assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("n"));
    let shop: Flavoured = serde_json::from_str(r#"{"metadata": {}, "spec": {"flavours": 3}}"#).expect("it is a shop");
    assert_eq!(shop.spec.flavours, 3);
    let empty: Flavoured = serde_json::from_str(r#"{"spec": null}"#).expect("its fields have defaults");
    assert_eq!(empty.spec.flavours, 0);
    let shape: Shape =
        serde_json::from_str(r#"{"type": "object", "properties": {"size": {}}}"#).expect("it is a schema");
    let size = shape.properties.and_then(|mut fields| fields.remove("size")).expect("a field");
    assert!(size.properties.is_none(), "a field of the same type");
}

#[test]
fn each_is_defined() {
    assert_eq!(names::<a_custom_resource>(), ["a-custom-resource"]);
    assert_eq!(names::<a_kind_of_the_cluster>(), ["a-kind-of-the-cluster"]);
    assert_eq!(names::<a_path>(), ["a-path"]);
    assert_eq!(names::<each>(), ["each-pod", "each-configmap", "each-service"]);
    assert_eq!(names::<with_bounds>(), ["bound-pod", "bound-shop"]);
    assert_eq!(a_custom_resource::controller().expect("it has one").name(), "a-custom-resource");
    assert_eq!(each::controllers().expect("it has three").len(), 3);
    assert_eq!(names::<a_part_of_a_kind>(), ["a-part-of-a-kind"]);
    assert_eq!(names::<a_part_of_a_custom_resource>(), ["a-part-of-a-custom-resource"]);
    assert_eq!(names::<of_metadata>(), ["of-metadata-pod", "of-metadata-node"]);
}
