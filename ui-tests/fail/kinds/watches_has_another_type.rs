use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, watches = [String => all])]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

fn all(_: &String) -> Vec<ObjectKey> {
    Vec::new()
}
