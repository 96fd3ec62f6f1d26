use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, cleanup = end, finalizer = "a.b/c")]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

async fn end(_: Arc<Pod>) -> u32 {
    3
}
