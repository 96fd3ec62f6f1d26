use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::Applier;

#[kooper::controller(resource = Pod, children = [config], status = none)]
async fn echo() {}

fn config(_: &Pod, _: Applier<ConfigMap>) -> ConfigMap {
    ConfigMap::default()
}
