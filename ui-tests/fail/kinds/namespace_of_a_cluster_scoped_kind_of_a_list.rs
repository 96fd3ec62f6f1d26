use k8s_openapi::api::core::v1::{Node, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = [Pod, Node], namespace = "shop")]
async fn each<K: kooper::Kind>(object: Arc<K>) {
    let _ = object;
}
