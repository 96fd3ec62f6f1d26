use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, workers = 0, resync = "3", labels = "a in b", banana)]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    let _ = pod;
    Ok(())
}
