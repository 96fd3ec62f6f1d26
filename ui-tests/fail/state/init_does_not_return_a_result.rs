use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

async fn connect() -> u32 {
    3
}

#[kooper::controller(resource = Pod, init = connect)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
