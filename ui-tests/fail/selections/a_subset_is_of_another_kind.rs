use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kooper::capability::{All, Subset};
use kooper::prelude::*;

struct OfShop;
impl Subset for OfShop {
    type Object = ConfigMap;
    fn select(all: All<ConfigMap>) -> All<ConfigMap> {
        all.labels("app=shop")
    }
}

#[kooper::controller(resource = Pod)]
async fn echo(_: Arc<Pod>, _: Getter<Secret, OfShop>) {}
