use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

#[kooper::controller(resource = ConfigMap, children = [], previous_children = [Namespace], status = none)]
async fn spaces() {}
