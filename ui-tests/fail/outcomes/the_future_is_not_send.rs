use std::rc::Rc;

use k8s_openapi::api::core::v1::Pod;
use kooper::prelude::*;

#[kooper::controller(resource = Pod)]
async fn echo(pod: Arc<Pod>) {
    let count = Rc::new(1);
    std::future::ready(pod).await;
    drop(count);
}
