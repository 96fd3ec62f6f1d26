use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

const WEB: [&str; 1] = ["app=web"];

#[kooper::controller(resource = Pod, labels = WEB)]
async fn echo(_: Arc<Pod>) {}
