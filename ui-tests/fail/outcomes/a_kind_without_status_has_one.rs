use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, NodeStatus};
use kooper::Status;

#[kooper::controller(resource = ConfigMap)]
async fn echo(_: Arc<ConfigMap>) -> kooper::Result<Status<NodeStatus>> {
    Ok(Status(NodeStatus::default()))
}
