//! Several replicas of one program, all of which work: each owns a part of the ConfigMaps.
//!
//! Run it without a cluster: `cargo run --bin shards -- dev --replicas 2`.
//!
//! Try: write `2` and press Enter. The second replica hands over its shards and stops, and the first one handles their
//! ConfigMaps with the reason `shard`. Write `2` once more, or `kill 2`. With the KUBECONFIG that it prints,
//! `cargo run --bin shards -- shards` shows the owner of each shard, and `kubectl get configmaps -o yaml` which process
//! has signed which ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::capability::PatchBody;
use kooper::prelude::*;
use serde_json::json;

/// Signs every ConfigMap with the process that owns its shard.
#[kooper::controller(resource = ConfigMap, shards = 16)]
async fn shards(config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, call: Call) -> Result<()> {
    let process = std::process::id().to_string();
    let signed = json!({"metadata": {"annotations": {"example.com/handled-by": process}}});
    configs.patch_object(&config, PatchBody::merge(signed)).await?;
    let shard = call.shard().map(|shard| shard.index);
    tracing::info!(config = %config.name_any(), shard, reasons = %call.reasons(), "handled");
    Ok(())
}
