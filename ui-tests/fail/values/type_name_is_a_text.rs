use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, type_name = "Echo")]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    let _ = pod;
    Ok(())
}
