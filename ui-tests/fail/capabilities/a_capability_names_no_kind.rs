use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, pods: Getter) -> Result<()> {
    let _ = (pod, pods);
    Ok(())
}
