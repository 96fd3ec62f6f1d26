use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, cleanup = end, finalizer = "example.com/pods")]
async fn sweep(_: Arc<Pod>) {}

type C = Call;

async fn end(_: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C) {}
