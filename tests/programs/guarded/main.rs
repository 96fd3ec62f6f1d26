//! A program whose webhooks guard its own kind.

use std::process::ExitCode;

use kooper::App;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::webhooks::{Denied, Webhook};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "guarded.example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {
    #[serde(default)]
    seats: i32,
    flavour: Option<String>,
}

async fn check(new: Arc<Shop>) -> Result<(), Denied> {
    if new.spec.seats < 0 { Err(Denied::default().field("spec.seats", "must not be negative")) } else { Ok(()) }
}

async fn fill(mut shop: Shop) -> Shop {
    shop.spec.flavour.get_or_insert_with(|| "vanilla".to_owned());
    shop
}

async fn open(shop: Arc<Shop>) {
    tracing::info!("opened {} with {:?}", shop.name_any(), shop.spec.flavour);
}

fn main() -> ExitCode {
    App::new("guarded", "1.0.0")
        .controller(|| Shop::controller("shops").install_crd().leader_election(LeaderElection::default()).handler(open))
        .webhook(|| Webhook::validate::<Shop>("check").function(check))
        .webhook(|| Webhook::mutate::<Shop>("fill").function(fill))
        .run()
}
