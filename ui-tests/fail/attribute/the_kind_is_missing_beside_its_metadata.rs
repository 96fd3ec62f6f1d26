use k8s_openapi::api::core::v1;
use kooper::prelude::*;

#[kooper::controller]
async fn echo(pod: Arc<PartialObjectMeta<v1::Pod>>) {
    let _ = pod;
}
