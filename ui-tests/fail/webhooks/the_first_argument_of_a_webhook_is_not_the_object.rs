use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::webhooks::Admission;

#[kooper::validate(resource = ConfigMap, failure = ignore)]
async fn check(_: Admission, _: Option<Arc<ConfigMap>>) {}

fn main() {}
