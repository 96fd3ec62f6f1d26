use k8s_openapi::api::core::v1::{ConfigMap, Pod};

#[kooper::controller(resource = Pod, children = [config(external)], status = none)]
async fn echo() {}

fn config(_: &Pod) -> ConfigMap {
    ConfigMap::default()
}
