use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

const URL: &str = "https://example.com";

#[kooper::controller(resource = Pod, init = URL)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
