use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper::prelude::*;

#[kooper::controller(resource = Pod, watches = [(Secret, metadata_only) => holders])]
async fn echo(_: Arc<Pod>) {}

fn holders(_: &Secret) -> Option<ObjectKey> {
    None
}
