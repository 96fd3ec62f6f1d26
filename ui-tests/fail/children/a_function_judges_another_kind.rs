use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

#[kooper::controller(resource = Pod, children = [config(ready = is_open)], status = none)]
async fn echo() {}

fn config(_: &Pod) -> ConfigMap {
    ConfigMap::default()
}

fn is_open(_: &Secret) -> bool {
    true
}
