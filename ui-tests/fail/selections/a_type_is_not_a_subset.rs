use k8s_openapi::api::core::v1::{Pod, Secret};
use kooper::prelude::*;

struct OfShop;

#[kooper::controller(resource = Pod)]
async fn echo(_: Arc<Pod>, _: Reader<Secret, OfShop>) {}
