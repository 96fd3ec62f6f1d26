use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;

#[kooper::validate(resource = ConfigMap, failure = ignore)]
async fn check(_: Arc<ConfigMap>, _: Getter<Secret>) {}

fn main() {}
