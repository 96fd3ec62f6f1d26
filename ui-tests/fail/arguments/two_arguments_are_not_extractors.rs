use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn echo(count: u32, pod: Arc<Pod>, name: String) {
    let _ = (count, pod, name);
}
