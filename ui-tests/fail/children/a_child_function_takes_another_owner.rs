use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

#[kooper::controller(resource = Pod, children = [config], status = none)]
async fn echo() {}

fn config(_: &Secret) -> ConfigMap {
    ConfigMap::default()
}
