use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn first(pod: Arc<Pod>) {
    let _ = pod;
}

#[kooper::controller(resource = Pod)]
async fn second(pod: Arc<Pod>) {
    let _ = pod;
}
