use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, when = |text: &String| text.is_empty())]
async fn echo(_: Arc<Pod>) {}
