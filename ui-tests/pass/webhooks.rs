//! Webhooks as functions: what each key and each argument becomes.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::prelude::*;
use kooper::webhooks::{Admission, Denied, Webhook};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {
    seats: u32,
}

struct Limits {
    seats: u32,
}

#[derive(clap::Args)]
struct ShopSettings {
    #[arg(long, default_value = "vanilla")]
    flavour: String,
}

async fn limits() -> Result<Limits> {
    Ok(Limits { seats: 100 })
}

#[kooper::validate(resource = Shop, operations = [create, update, delete], timeout = "2s", init = limits)]
async fn check_seats(
    new: Option<Arc<Shop>>,
    old: Option<Arc<Shop>>,
    request: Admission,
    limits: State<Limits>,
    configs: Reader<ConfigMap>,
    settings: Settings<ShopSettings>,
) -> Result<(), Denied> {
    request.audit("flavour", &settings.flavour);
    let seats = new.or(old).map_or(0, |shop| shop.spec.seats);
    let allowed = seats <= limits.seats && configs.list().count() < 100;
    if allowed { Ok(()) } else { Err(Denied::default().field("spec.seats", "too many")) }
}

#[kooper::mutate(resource = ConfigMap, name = "motto", failure = ignore, overwrite, type_name = Fill)]
async fn fill(mut object: ConfigMap) -> ConfigMap {
    object.data.get_or_insert_default().insert("motto".into(), "keep calm".into());
    object
}

#[kooper::mutate(resource = Secret, failure = fail, rbac("configmaps: get", "pods: list"), crate = ::kooper)]
async fn stamp(object: Secret, _old: Option<Arc<Secret>>, _client: Client) -> Result<Secret, kube::Error> {
    Ok(object)
}

#[kooper::validate(resource = Shop, namespace_selector = "tier in (gold, silver), !legacy", subresources = [status])]
async fn narrow(_new: Arc<Shop>, request: Admission) {
    request.audit("subresource", request.subresource().unwrap_or_default());
}

#[kooper::validate(resource = Shop, match_conditions = [("named", "has(object.metadata.name)"), ("new", "true")])]
async fn allow(_new: Arc<Shop>) {}

#[test]
fn each_webhook_is_built_and_its_function_can_be_called() {
    let path = |webhook: Result<Webhook, _>| webhook.expect("the builder accepts what the attribute accepted").path();
    assert_eq!(path(check_seats::webhook()), "/validate-example-com-v1-shop/check-seats");
    assert_eq!(path(Fill::webhook()), "/mutate--v1-configmap/motto");
    assert_eq!(path(stamp::webhook()), "/mutate--v1-secret/stamp");
    assert_eq!(path(narrow::webhook()), "/validate-example-com-v1-shop/narrow");
    assert_eq!(path(allow::webhook()), "/validate-example-com-v1-shop/allow");
    let filled = futures_util::FutureExt::now_or_never(fill(ConfigMap::default())).expect("it waits for nothing");
    assert_eq!(filled.data.expect("data")["motto"], "keep calm");
}
