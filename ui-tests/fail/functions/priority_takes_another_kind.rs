use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn urgency(text: &String) -> i32 {
    text.parse().unwrap_or(0)
}

#[kooper::controller(resource = Pod, priority = urgency)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
