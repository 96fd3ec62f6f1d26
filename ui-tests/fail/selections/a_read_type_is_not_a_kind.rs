use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, reads = [(String, labels = "app=shop")])]
async fn echo(_: Arc<Pod>, _: Reader<String>) {}
