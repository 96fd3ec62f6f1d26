use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// An ice cream shop.
#[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
#[x_kube(validation = Rule::new("!has(self.tables) || self.tables <= self.seats")
    .message("a table has at least one seat")
    .field_path(".tables"))]
#[x_kube(validation = Rule::new("has(self.address) || !has(oldSelf.address)")
    .message("an address cannot be removed")
    .field_path(".address"))]
struct ShopSpec {
    #[schemars(range(min = 1, max = 500))]
    seats: i32,
    tables: Option<i32>,
    #[schemars(length(max = 100))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a shop does not move"))]
    address: Option<String>,
    #[serde(default = "vanilla")]
    flavour: String,
}

fn vanilla() -> String {
    "vanilla".to_owned()
}
