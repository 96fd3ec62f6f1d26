use k8s_openapi::api::core::v1::{ConfigMap, Pod};

#[kooper::controller(resource = Pod, children = [config], status = none)]
async fn echo() {}

async fn config(_: &Pod) -> ConfigMap {
    ConfigMap::default()
}
