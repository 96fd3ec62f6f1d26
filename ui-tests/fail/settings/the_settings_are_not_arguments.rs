use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

struct Shop {}

#[kooper::controller(resource = Pod, settings = Shop)]
async fn echo(pod: Arc<Pod>, settings: Settings<Shop>) {
    let _ = (pod, settings);
}
