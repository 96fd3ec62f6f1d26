use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::mutate(resource = ConfigMap, failure = ignore)]
async fn fill(_: ConfigMap) -> Result<()> {
    Ok(())
}

fn main() {}
