use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, configs: StatusWriter<ConfigMap>) -> Result<()> {
    let _ = (pod, configs);
    Ok(())
}
