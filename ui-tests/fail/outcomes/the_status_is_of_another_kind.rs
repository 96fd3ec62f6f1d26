use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeStatus, Pod};
use kooper::Status;

#[kooper::controller(resource = Pod)]
async fn echo(_: Arc<Pod>) -> Status<NodeStatus> {
    Status(NodeStatus::default())
}
