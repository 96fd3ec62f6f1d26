use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

async fn connect(_: State<u32>) -> Result<u32> {
    Ok(3)
}

#[kooper::controller(resource = Pod, init = connect)]
async fn sweep(_: State<u32>) {}
