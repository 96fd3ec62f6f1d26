use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, watches = [Service => |_: &Secret| None])]
async fn echo(_: Arc<Pod>) {}
