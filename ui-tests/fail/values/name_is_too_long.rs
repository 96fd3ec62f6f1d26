use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, name = "a-name-of-more-than-sixty-three-characters-is-longer-than-a-label")]
async fn echo(pod: Arc<Pod>) -> Result<()> {
    let _ = pod;
    Ok(())
}
