use k8s_openapi::api::core::v1::{Pod, Service};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, cleanup = end, finalizer = "a.b/c")]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

async fn end(_: Arc<Service>) {}
