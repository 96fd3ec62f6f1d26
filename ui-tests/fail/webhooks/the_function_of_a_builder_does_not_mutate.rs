use k8s_openapi::api::core::v1::ConfigMap;
use kooper::webhooks::Webhook;

fn fill(object: ConfigMap) -> ConfigMap {
    object
}

fn main() {
    let _ = Webhook::mutate::<ConfigMap>("fill").function(fill);
}
