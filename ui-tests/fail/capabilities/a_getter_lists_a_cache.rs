use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, pods: Getter<Pod>) -> Result<()> {
    let _ = (pod, pods.list().count());
    Ok(())
}
