use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn ready(text: &String) -> bool {
    text.is_empty()
}

#[kooper::controller(resource = Pod, when = ready)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
