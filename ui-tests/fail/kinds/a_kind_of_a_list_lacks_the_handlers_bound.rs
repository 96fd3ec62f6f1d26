use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = [Pod])]
async fn each<K: kooper::Kind + Copy>(object: Arc<K>) {
    let _ = object;
}
