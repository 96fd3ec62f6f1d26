use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn urgency(_: &Pod) -> u32 {
    1
}

#[kooper::controller(resource = Pod, priority = urgency)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
