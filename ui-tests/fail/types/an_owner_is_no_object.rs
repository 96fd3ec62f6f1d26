use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap, owns = [Secret])]
async fn secrets(call: Call, secrets: Applier<Secret>) -> Result<()> {
    secrets.apply_owned(call.key(), &Secret::default()).await?;
    Ok(())
}
