use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = [Pod], name = "a-name-of-sixty-two-characters-which-leaves-no-room-for-a-kind")]
async fn each<K: kooper::Kind>(object: Arc<K>) {
    let _ = object;
}
