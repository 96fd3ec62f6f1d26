use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, init = connect())]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    let _ = pod;
    Ok(())
}

fn connect() {}
