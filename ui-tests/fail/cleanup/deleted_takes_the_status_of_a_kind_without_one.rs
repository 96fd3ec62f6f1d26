use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, deleted = end)]
async fn sweep(_: Arc<Pod>) {}

async fn end(_: Arc<Pod>, _: StatusWriter<ConfigMap>) {}
