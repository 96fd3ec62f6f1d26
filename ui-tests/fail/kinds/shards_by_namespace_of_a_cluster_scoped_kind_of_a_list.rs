use k8s_openapi::api::core::v1::{Node, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = [Pod, Node], shards(count = 32, by = namespace))]
async fn echo<K: Kind>(object: Arc<K>) {
    let _ = object;
}
