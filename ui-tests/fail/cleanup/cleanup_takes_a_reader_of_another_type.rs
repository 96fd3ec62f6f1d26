use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, cleanup = end, finalizer = "example.com/pods")]
async fn sweep(_: Arc<Pod>) {}

async fn end(_: Arc<Pod>, _: Reader<u32>) {}
