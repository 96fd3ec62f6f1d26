use k8s_openapi::api::core::v1::{Pod, Service};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, deleted = forget)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

async fn forget(_: Arc<Service>) {}
