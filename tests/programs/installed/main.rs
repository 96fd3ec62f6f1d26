//! A program that cleans up, for the tests of its manifests and of `uninstall`.
//!
//! Its own kind is `Shop`; it also cleans up after ConfigMaps with a label.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::__private::v1::{Definition, Program};
use kooper::Controller;
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "installed.example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    /// Makes its cleanup fail.
    #[serde(default)]
    stuck: bool,
    /// Makes its cleanup block its thread, and not end.
    #[serde(default)]
    blocked: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {}

struct Installed;

async fn open<K: ResourceExt>(object: Arc<K>) {
    tracing::info!("opened {}", object.name_any());
}

async fn close(shop: Arc<Shop>) -> Result<()> {
    if shop.spec.blocked {
        loop {
            std::thread::park();
        }
    }
    if shop.spec.stuck {
        return Err("the door is stuck".into());
    }
    tracing::info!("closed {}", shop.name_any());
    Ok(())
}

async fn forget(config: Arc<ConfigMap>) {
    tracing::info!("forgot {}", config.name_any());
}

impl Definition for Installed {
    fn define(program: &mut Program) {
        let shops = Controller::builder::<Shop>("shops").crd().handler(open::<Shop>);
        program.add(shops.cleanup("installed.example.com/shop", close));
        let configs = Controller::builder::<ConfigMap>("configs").labels("shop").handler(open::<ConfigMap>);
        program.add(configs.cleanup("installed.example.com/config", forget));
    }
}

/// The settings; none has an effect.
#[derive(Clone, Debug, clap::Args)]
struct InstalledSettings {
    /// The sign on the door
    #[arg(long)]
    greeting: Option<String>,
    /// A day on which the shops are closed; repeatable
    #[arg(long, value_parser = ["sunday", "monday"])]
    closed: Vec<String>,
    /// No music
    #[arg(long)]
    quiet: bool,
    /// Whether prices are kept in memory
    #[arg(long)]
    cache: Option<bool>,
    /// The code of the till
    #[arg(long, env = "INSTALLED_TILL")]
    till: Option<kooper::SecretValue>,
}

kooper::main!(settings = InstalledSettings, Installed);
