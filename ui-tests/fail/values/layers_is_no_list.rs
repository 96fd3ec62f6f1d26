use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, layers = audited)]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    let _ = pod;
    Ok(())
}

fn audited() {}
