use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, watches = [Service => all])]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

fn all(_: &Service, _: &Reader<Secret>) -> Vec<ObjectKey> {
    Vec::new()
}
