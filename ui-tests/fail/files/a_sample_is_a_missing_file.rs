use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, samples = ["no_such_file.yaml"])]
async fn echo(pod: Arc<Pod>) {
    tracing::info!(pod = %pod.name_any(), "seen");
}
