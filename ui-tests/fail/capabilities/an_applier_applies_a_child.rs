use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, secrets: Applier<Secret>) -> Result<()> {
    secrets.apply_owned(&*pod, &Secret::default()).await?;
    Ok(())
}
