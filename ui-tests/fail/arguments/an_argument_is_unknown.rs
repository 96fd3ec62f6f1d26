use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn echo(pod: Arc<Pop>) {
    let _ = pod;
}
