use k8s_openapi::api::core::v1;
use kooper::prelude::*;

#[kooper::controller(v1::Pod, workers = 4)]
async fn echo(pod: Arc<v1::Pod>) {
    let _ = pod;
}
