use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap, daemon = run)]
async fn lamps() {}

fn run(_: Arc<ConfigMap>) -> Result<()> {
    Ok(())
}
