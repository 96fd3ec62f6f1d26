use k8s_openapi::api::core::v1::Node;
use kooper::prelude::*;

#[kooper::controller(resource = Node, namespace = own)]
async fn echo(node: Arc<Node>) {
    let _ = node;
}
