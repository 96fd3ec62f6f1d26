use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, sources = [orders])]
async fn echo(pod: Arc<Pod>) {
    let _ = pod;
}

fn orders(_: Client) -> futures_util::stream::Pending<ObjectKey> {
    futures_util::stream::pending()
}
