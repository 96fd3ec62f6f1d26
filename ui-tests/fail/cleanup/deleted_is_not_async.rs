use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, deleted = forget)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

fn forget(_: Arc<Pod>) {}
