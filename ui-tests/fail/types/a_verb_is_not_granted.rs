use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn clean(pod: Arc<Pod>, pods: Getter<Pod>) -> Result<()> {
    pods.delete_object(&pod).await?;
    Ok(())
}
