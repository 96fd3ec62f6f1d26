use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::validate(resource = ConfigMap, failure = ignore)]
fn check(_: Arc<ConfigMap>) -> Result<()> {
    Ok(())
}

fn main() {}
