use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, secrets: Deleter<Secret>) -> Result<()> {
    secrets.evict(&Secret::default()).await?;
    Ok(())
}
