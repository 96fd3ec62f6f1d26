use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, deleted = END)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

const END: u32 = 3;
