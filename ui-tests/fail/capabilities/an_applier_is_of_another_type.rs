use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn sweep(pod: Arc<Pod>, numbers: Applier<String>) -> Result<()> {
    let _ = (pod, numbers);
    Ok(())
}
