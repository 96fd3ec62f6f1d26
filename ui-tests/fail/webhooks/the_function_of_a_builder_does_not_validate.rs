use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kooper::webhooks::Webhook;

async fn check(_: Arc<Secret>) {}

fn main() {
    let _ = Webhook::validate::<ConfigMap>("check").function(check);
}
