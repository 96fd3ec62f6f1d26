use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = [Pod], install_crd)]
async fn each<K: Kind>(object: Arc<K>) {
    let _ = object;
}
