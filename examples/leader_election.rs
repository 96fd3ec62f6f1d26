//! Several replicas of one program: one is the leader, the others are standbys.
//!
//! Run it without a cluster: `cargo run --bin leader-election -- dev --replicas 2`.
//!
//! Try: write the number of the replica that logs `handled`, and press Enter. It logs `gave up leadership` and stops;
//! within milliseconds the other one, which has logged `standby`, handles all ConfigMaps with `reasons=leader`. With the
//! KUBECONFIG that it prints, `kubectl get leases` shows the holder.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::kube::api::{Api, Patch, PatchParams};
use kooper::prelude::*;
use serde_json::json;

/// Signs every ConfigMap with the process that handles it.
#[kooper::controller(
    resource = ConfigMap,
    leader_election(lease_duration = "6s", renew_deadline = "4s", retry_period = "1s"),
    rbac("configmaps: patch")
)]
async fn leader_election(config: Arc<ConfigMap>, client: Client) -> Result<()> {
    let process = std::process::id().to_string();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/handled-by": process}}}));
    let configs = Api::<ConfigMap>::namespaced(client, &config.namespace().unwrap_or_default());
    configs.patch_metadata(&config.name_any(), &PatchParams::default(), &patch).await?;
    tracing::info!(config = %config.name_any(), "handled");
    Ok(())
}
