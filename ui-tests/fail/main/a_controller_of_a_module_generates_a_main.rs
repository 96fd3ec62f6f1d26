use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

mod pods {
    use super::*;

    #[kooper::controller(resource = Pod)]
    async fn echo(pod: Arc<Pod>) {
        let _ = pod;
    }
}
