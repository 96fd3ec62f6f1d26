//! The shards of a controller in this process.

use std::sync::Arc;

use kooper_runtime::internal::controller::Process;
use kooper_runtime::internal::controller::partition::Partition;
use kooper_runtime::{ConfigError, ConfigErrorKind};
use kooper_sharding::{Sharding, ShardingOptions};

use crate::controller::Controller;

/// The part of the objects that a controller with shards handles in this process.
pub(super) fn sharding(controller: &Controller, process: &Process) -> Result<Option<Arc<dyn Partition>>, ConfigError> {
    let client = process.lease_client.clone().or_else(|| process.client.clone());
    let leases = controller.shard_leases(&process.installation, &process.lease_namespace);
    let Some((leases, client)) = leases.zip(client).filter(|_| process.pass.is_none()) else { return Ok(None) };
    let sharding = Sharding::new(ShardingOptions {
        controller: controller.name().into(),
        shards: leases.shards.clone(),
        mark: leases.mark,
        leases: leases.names,
        namespace: leases.namespace,
        watched: controller.namespaces().to_vec(),
        identity: process.identity.clone(),
        client,
        metrics: process.metrics.clone(),
        health: process.health.clone(),
    });
    match sharding {
        Ok(sharding) => Ok(Some(Arc::new(sharding))),
        Err(error) => Err(controller.error("shards", ConfigErrorKind::OutOfRange, error)),
    }
}
