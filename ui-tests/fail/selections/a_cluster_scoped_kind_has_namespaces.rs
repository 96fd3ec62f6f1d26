use k8s_openapi::api::core::v1::{Node, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, owns = [(Node, namespaces = ["shop"])])]
async fn echo(_: Arc<Pod>) {}
