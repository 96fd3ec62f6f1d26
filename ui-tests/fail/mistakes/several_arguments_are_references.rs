use k8s_openapi::api::core::v1::{self, Pod};
use kooper::prelude::*;

#[kooper::controller(resource = v1::Pod)]
async fn echo(_a: &Arc<Pod>, _b: &v1::Pod, _c: &PartialObjectMeta<Pod>, _d: &Client, _e: &str) {}
