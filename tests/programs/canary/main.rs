//! A program that handles secrets in every possible place, for the test that it shows none of them.

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use kooper::SecretValue;
use kooper::capability::{Getter, Reader};
use kooper::prelude::*;
use kube::CustomResource;
use kube::core::Request;
use kube::core::params::GetParams;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "canary.example.com", version = "v1", kind = "Vault", namespaced, schema = "disabled")]
struct VaultSpec {
    #[serde(default)]
    code: Option<u8>,
    #[serde(default)]
    door: Option<Door>,
}

#[derive(Clone, Debug, Serialize)]
struct Door;

impl<'de> Deserialize<'de> for Door {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Err(D::Error::custom(format!("{} is not a door", String::deserialize(deserializer)?)))
    }
}

#[derive(Debug, clap::Args)]
struct VaultSettings {
    /// What opens the vaults
    #[arg(long, default_value = "")]
    code: SecretValue,
}

/// An error whose source is for the log alone.
#[derive(Debug)]
struct Locked {
    code: String,
    source: kooper::BoxError,
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = &self.code;
        write!(f, "cannot open it with {code} at https://guard:{code}@vaults")
    }
}

impl std::error::Error for Locked {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

#[kooper::controller(resource = Vault, resync = off, settings = VaultSettings, rbac("secrets: get"))]
async fn guard(
    vault: Arc<Vault>,
    all: Reader<Secret>,
    secrets: Getter<Secret>,
    client: Client,
    recorder: Recorder,
    settings: Settings<VaultSettings>,
) -> Result<()> {
    let (namespace, name) = (vault.namespace().unwrap_or_default(), vault.name_any());
    let key = ObjectKey::namespaced(&namespace, "keys");
    assert_eq!(all.get(&key)?.is_some(), secrets.fetch(&key).await?.is_some());
    recorder.normal("Guarded", "it is guarded");
    if name == "misread" {
        // A response that does not decode: kube's own error quotes it.
        let keys =
            Request::new(format!("/api/v1/namespaces/{namespace}/secrets")).get("keys", &GetParams::default())?;
        client.request::<Vec<u8>>(keys).await?;
    }
    let code = settings.code.expose();
    match &*name {
        "locked" => {
            tracing::info!(code, "{code} opens https://guard:{code}@vaults");
            recorder.normal("Guarded", format!("{code} opens https://guard:{code}@vaults"));
            let source = format!("for the log: {code}").into();
            return Err(HandlerError::permanent(Locked { code: code.to_owned(), source }).into());
        }
        "panics" => panic!("for the log: {code}"),
        _ => {}
    }
    tracing::info!("{name} is guarded");
    Ok(())
}
