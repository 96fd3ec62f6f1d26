use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap)]
async fn write(_config: Arc<ConfigMap>, _statuses: StatusWriter<ConfigMap>) -> Result<()> {
    Ok(())
}
