use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn connect() -> Result<u32> {
    Ok(3)
}

#[kooper::controller(resource = Pod, init = connect)]
async fn echo(state: State<u32>) {
    let _ = state;
}
