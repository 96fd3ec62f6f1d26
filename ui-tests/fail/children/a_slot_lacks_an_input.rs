use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

#[kooper::controller(resource = Pod, children = [config, web], status = none)]
async fn echo() {}

fn config(_: &Pod) -> ConfigMap {
    ConfigMap::default()
}

fn web(_: &Pod, _: &ConfigMap) -> Secret {
    Secret::default()
}
