use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
fn echo(pod: Arc<Pod>) -> Result<()> {
    let _ = pod;
    Ok(())
}
