use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn mine(_: Client) -> u32 {
    3
}

#[kooper::controller(resource = Pod, retriever = mine)]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
