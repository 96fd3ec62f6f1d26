use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Condition};

#[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize)]
#[kube(group = "a.b", version = "v1", kind = "Shop", status = "Open", schema = "disabled")]
struct ShopSpec {}

#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
struct Open { conditions: Vec<Condition> }

#[kooper::controller(resource = Shop, children = [config])]
async fn echo() {}

fn config(_: &Shop) -> ConfigMap {
    ConfigMap::default()
}
