//! The kind that the explored controllers handle, and what they write.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::controller::Builder;
use kooper::prelude::*;
use kooper::testing::Cluster;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
pub(crate) struct ShopSpec {
    pub(crate) size: i32,
    pub(crate) color: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ShopStatus {
    #[serde(default)]
    pub(crate) open: bool,
    #[serde(default)]
    pub(crate) count: i32,
    #[serde(default)]
    pub(crate) names: Vec<String>,
}

impl Shop {
    pub(crate) fn is_closing(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn seen(&self) -> ShopStatus {
        self.status.clone().unwrap_or_default()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.seen().open
    }

    /// The key of its object of this name.
    pub(crate) fn key(&self, suffix: &str) -> ObjectKey {
        ObjectKey::namespaced("default", &format!("{}-{suffix}", self.name_any()))
    }

    /// One of its Secrets.
    pub(crate) fn secret(&self, suffix: &str) -> Secret {
        from_value(json!({
            "metadata": {
                "name": self.key(suffix).name(), "namespace": "default", "labels": {"shop": self.name_any()},
            },
            "stringData": {"size": self.spec.size.to_string()},
        }))
        .expect("it is a Secret")
    }

    /// One of its Secrets, with a name that the server generates.
    pub(crate) fn generated(&self) -> Secret {
        let mut secret = self.secret("");
        secret.metadata.generate_name = secret.metadata.name.take();
        secret.metadata.owner_references = self.controller_owner_ref(&()).map(|owner| vec![owner]);
        secret
    }

    /// A ConfigMap that is not its own.
    pub(crate) fn note(name: &str, data: &Value) -> ConfigMap {
        from_value(json!({"metadata": {"name": name, "namespace": "default"}, "data": data}))
            .expect("it is a ConfigMap")
    }

    pub(crate) fn opened() -> ShopStatus {
        ShopStatus { open: true, ..ShopStatus::default() }
    }
}

pub(crate) fn shop(name: &str, size: i32, color: Option<&str>) -> Shop {
    Shop::new(name, ShopSpec { size, color: color.map(str::to_owned) })
}

/// A controller of Shops.
pub(crate) fn shops() -> Builder<Shop> {
    Shop::controller("shops").crd()
}

/// Actions of the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scenario {
    Opens,
    /// Also with a Secret of another shop.
    OpensTwo,
    Closes,
    /// From one state to another.
    Changes,
}

impl Scenario {
    pub(crate) async fn pass(self, cluster: Cluster) -> Result<()> {
        match self {
            Self::Opens => drop(cluster.create(&shop("corner", 2, None)).await?),
            Self::OpensTwo => {
                cluster.create(&shop("corner", 2, None)).await?;
                cluster.settle().await;
                let market = cluster.create(&shop("market", 2, None)).await?;
                cluster.create(&market.secret("given")).await?;
            }
            Self::Closes => {
                let corner = cluster.create(&shop("corner", 2, None)).await?;
                cluster.settle().await;
                cluster.delete(&corner).await?;
                cluster.wait_deleted(&corner).await;
            }
            Self::Changes => {}
        }
        Ok(())
    }
}
