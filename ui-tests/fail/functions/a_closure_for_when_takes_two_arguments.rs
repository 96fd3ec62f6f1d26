use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, when = |old: &Pod, new: &Pod| old != new)]
async fn echo(_: Arc<Pod>) {}
