use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, changed = ["spec.nodeName", "spec.nodename"])]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
