use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap)]
async fn secrets(call: Call, secrets: OwnedApplier<Secret>) -> Result<()> {
    secrets.apply_owned(call.key(), &Secret::default()).await?;
    Ok(())
}
