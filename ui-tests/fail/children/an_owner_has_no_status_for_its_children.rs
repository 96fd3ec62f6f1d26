use k8s_openapi::api::core::v1::{ConfigMap, Secret};

#[kooper::controller(resource = Secret, children = [config])]
async fn echo() {}

fn config(_: &Secret) -> ConfigMap {
    ConfigMap::default()
}
