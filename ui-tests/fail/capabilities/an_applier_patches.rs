use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, pods: Applier<Pod>) -> Result<()> {
    pods.patch_object(&pod, kooper::capability::PatchBody::merge(serde_json::json!({}))).await?;
    Ok(())
}
