use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

struct Echo;

impl Echo {
    #[kooper::controller(resource = Pod)]
    async fn echo(pod: Arc<Pod>) -> Result<(), Self> {
        let _ = pod;
        Err(Self)
    }
}

fn main() {}
