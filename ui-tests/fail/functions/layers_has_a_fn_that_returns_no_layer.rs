use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn audited() -> u32 {
    3
}

#[kooper::controller(resource = Pod, layers = [audited])]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
