use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

const RESYNC: u64 = 60;

#[kooper::controller(resource = Pod, resync = RESYNC)]
async fn echo(_: Arc<Pod>) {}
