use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap)]
async fn drop_names(_config: Arc<ConfigMap>, _names: Deleter<String>) -> Result<()> {
    Ok(())
}
