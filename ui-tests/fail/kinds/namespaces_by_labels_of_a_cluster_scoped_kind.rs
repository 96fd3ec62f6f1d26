use k8s_openapi::api::core::v1::Node;
use kooper::prelude::*;

#[kooper::controller(resource = Node, namespaces(labels = "team=a"))]
async fn echo(node: Arc<Node>) {
    let _ = node;
}
