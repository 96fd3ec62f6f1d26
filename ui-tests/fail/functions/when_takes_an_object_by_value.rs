use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn ready(pod: Pod) -> bool {
    pod.status.is_some()
}

#[kooper::controller(resource = Pod, when = ready)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
