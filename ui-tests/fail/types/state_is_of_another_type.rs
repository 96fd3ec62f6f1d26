use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

async fn connect() -> Result<String> {
    Ok(String::new())
}

#[kooper::controller(resource = Pod, init = connect)]
async fn echo(pod: Arc<Pod>, state: State<u32>) {
    let _ = (pod, state);
}
