use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = [Pod])]
async fn each<K: kooper::Kind, T>(object: Arc<K>, other: Arc<T>) {
    let _ = (object, other);
}
