use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, pods: Applier<Pod>) -> Result<()> {
    pods.apply_status(&pod, &PodStatus::default()).await?;
    Ok(())
}
