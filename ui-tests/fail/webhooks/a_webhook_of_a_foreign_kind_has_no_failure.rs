use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;

#[kooper::validate(resource = ConfigMap)]
async fn check(_: Arc<ConfigMap>) {}

fn main() {}
