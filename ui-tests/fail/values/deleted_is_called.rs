use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, deleted = end())]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

async fn end(_: Arc<Pod>) {}
