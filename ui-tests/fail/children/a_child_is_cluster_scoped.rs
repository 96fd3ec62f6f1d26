use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

#[kooper::controller(resource = ConfigMap, children = [space], status = none)]
async fn spaces() {}

fn space(_: &ConfigMap) -> Namespace {
    Namespace::default()
}
