//! A program that does more than it says: its `rbac` has no rule for the Secrets that it reads.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::kube::api::{Api, ListParams};
use kooper::prelude::*;

#[kooper::controller(resource = ConfigMap, rbac("pods: list"))]
async fn snoop(map: Arc<ConfigMap>, client: Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client, &map.namespace().unwrap_or_default());
    secrets.list(&ListParams::default()).await?;
    tracing::info!("it reads them");
    Ok(())
}
