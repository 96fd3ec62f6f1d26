use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod, sources = [|_: Client| futures_util::stream::pending::<ObjectKey>()])]
async fn echo(_: Arc<Pod>) {}
