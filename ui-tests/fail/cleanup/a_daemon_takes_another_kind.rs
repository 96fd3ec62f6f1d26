use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap, daemon = run)]
async fn lamps() {}

async fn run(_: Arc<Pod>) -> Result<()> {
    Ok(())
}
