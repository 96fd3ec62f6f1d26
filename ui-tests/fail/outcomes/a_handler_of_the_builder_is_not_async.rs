use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

fn main() {
    let _ = kooper::Controller::builder::<Pod>("echo").handler(echo);
}
