use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap, children = [copy], status = none, daemon = run)]
async fn copies() {}

fn copy(_: &ConfigMap) -> Secret {
    Secret::default()
}

async fn run(_: Children<ConfigMap>) -> Result<()> {
    Ok(())
}
