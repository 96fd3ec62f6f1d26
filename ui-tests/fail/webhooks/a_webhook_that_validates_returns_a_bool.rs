use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::validate(resource = ConfigMap, failure = ignore)]
async fn check(new: Arc<ConfigMap>) -> bool {
    new.data.is_some()
}

fn main() {}
