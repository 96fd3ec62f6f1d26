//! A kind with a validating webhook, a mutating webhook and a controller, in one program. The validating webhook reads
//! other objects of the cluster, which a rule in the schema cannot do.
//!
//! Run it without a cluster: `cargo run --bin webhooks -- dev`
//!
//! Try, with the KUBECONFIG that it prints, `kubectl apply -f shop.yaml` with a Shop of `apiVersion: example.com/v1`.
//! With `spec: {seats: 0}`, the request is denied, and the message names the field. With `seats: 4`, the Shop is created,
//! and `kubectl get shops -o yaml` shows the flavour `vanilla`. With `seats: 200`, kubectl prints a warning. A second
//! Shop with the same `spec.address` is denied.

use kooper::prelude::*;
use kooper::webhooks::{Admission, Denied};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An ice cream shop.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
struct ShopSpec {
    seats: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    flavour: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// Denies a shop without seats, and a shop with the address of another one.
#[kooper::validate(resource = Shop)]
async fn check(new: Arc<Shop>, request: Admission, shops: Reader<Shop>) -> Result<()> {
    let mut denied = Denied::default();
    if new.spec.seats < 1 {
        denied = denied.field("spec.seats", "must be at least 1");
    } else if new.spec.seats > 100 {
        request.warn("spec.seats: no shop is that large");
    }
    for shop in shops.list().filter(|shop| shop.key() != request.key()) {
        let address = &shop.decode()?.spec.address;
        if address.is_some() && *address == new.spec.address {
            denied = denied.field("spec.address", format!("is already used by {}", shop.key()));
        }
    }
    Ok(denied.into_result()?)
}

/// Sets the flavour of a shop that has none.
#[kooper::mutate(resource = Shop)]
async fn fill(mut shop: Shop) -> Shop {
    shop.spec.flavour.get_or_insert_with(|| "vanilla".to_owned());
    shop
}

#[kooper::controller(resource = Shop, install_crd, main = false)]
async fn open(shop: Arc<Shop>) {
    tracing::info!(shop = %shop.name_any(), flavour = shop.spec.flavour, "open");
}

kooper::main!(check, fill, open);

#[cfg(test)]
mod tests {
    use super::*;
    use kooper::testing::Cluster;
    use kooper::webhooks::Operation;

    fn shop(name: &str, spec: ShopSpec) -> Shop {
        Shop::new(name, spec)
    }

    #[tokio::test]
    async fn a_large_shop_is_a_warning() -> Result<()> {
        let (large, request) =
            (shop("a", ShopSpec { seats: 200, ..Default::default() }), Admission::new(Operation::Create));
        check(Arc::new(large), request.clone(), Reader::fixed([])?).await?;
        assert_eq!(request.warnings(), ["spec.seats: no shop is that large"]);
        Ok(())
    }

    #[kooper::test(check, fill, open, start_paused = true)]
    async fn two_shops_have_two_addresses(cluster: Cluster) -> Result<()> {
        let spec = ShopSpec { seats: 4, address: Some("Main Street 1".to_owned()), ..Default::default() };
        let created = cluster.create(&shop("one", spec.clone())).await?;
        assert_eq!(created.spec.flavour.as_deref(), Some("vanilla"));
        // The other one is denied once the cache of the webhook has the first.
        cluster.settle().await;
        let denied = cluster.create(&shop("other", spec)).await.unwrap_err();
        assert!(denied.to_string().contains("spec.address: is already used by"), "{denied}");
        Ok(())
    }
}
