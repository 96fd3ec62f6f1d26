use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

struct Echo;

impl Echo {
    #[kooper::controller(resource = Pod)]
    async fn echo(&self, pod: Arc<Pod>) {
        let _ = pod;
    }
}

fn main() {}
