use k8s_openapi::api::core::v1::{Node, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn echo(node: Arc<Node>) {
    let _ = node;
}
