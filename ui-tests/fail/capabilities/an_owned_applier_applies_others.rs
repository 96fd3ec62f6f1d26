use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(secrets: OwnedApplier<Secret>) -> Result<()> {
    secrets.apply(&Secret::default()).await?;
    Ok(())
}
