use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, when = |pod| pod.status.clone())]
async fn echo(_: Arc<Pod>) {}
