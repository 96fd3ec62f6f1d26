use k8s_openapi::api::core::v1::{Pod, Service};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, watches = [Service => |service, reader| None])]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}
