use k8s_openapi::api::core::v1::Pod;
use kooper::capability::by;
use kooper::prelude::*;

struct Node;

#[kooper::controller(resource = Pod)]
async fn echo(pods: Reader<Pod>) {
    let _ = pods.select(by::index(Node, "one")).count();
}
