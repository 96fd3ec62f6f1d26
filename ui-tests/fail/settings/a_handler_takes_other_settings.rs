use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[derive(clap::Args)]
struct Shop {}

struct Mall {}

#[kooper::controller(resource = Pod, settings = Shop)]
async fn echo(pod: Arc<Pod>, settings: Settings<Mall>) {
    let _ = (pod, settings);
}
