use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, secrets: Creator<Secret>) -> Result<()> {
    secrets.adopt(&*pod, &Secret::default()).await?;
    Ok(())
}
