use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::mutate(resource = ConfigMap, failure = ignore)]
async fn fill(object: Arc<ConfigMap>) -> ConfigMap {
    (*object).clone()
}

fn main() {}
