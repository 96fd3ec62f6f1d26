use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

struct Oops;

#[kooper::controller(resource = Pod)]
async fn echo(pod: Arc<Pod>) -> Result<(), Oops> {
    let _ = pod;
    Err(Oops)
}
