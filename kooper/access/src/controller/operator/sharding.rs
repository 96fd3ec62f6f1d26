//! The shards of controllers in this process, and those of their tasks.

use std::collections::HashMap;
use std::sync::Arc;

use kooper_runtime::internal::controller::Process;
use kooper_runtime::internal::controller::partition::Partition;
use kooper_sharding::{Sharding, ShardingOptions};

use crate::controller::Controller;
use crate::controller::error::{ConfigError, ConfigErrorKind};
use crate::installation::Installation;

/// The shards of the controllers that have some, by the names of the controllers.
pub(super) struct Shardings(HashMap<String, Sharding>);

impl Shardings {
    /// The Leases are those of an installation, by default in this namespace.
    pub(super) fn new(
        controllers: &[Controller],
        place: (&Installation, &str),
        process: &Process,
    ) -> Result<Self, ConfigError> {
        let named = |one: &Controller| Some((one.name().to_owned(), sharding(one, place, process).transpose()?));
        controllers.iter().filter_map(named).map(|(name, one)| Ok((name, one?))).collect::<Result<_, _>>().map(Self)
    }

    /// The part of its objects that a controller handles in this process; `None` for all.
    pub(super) fn part(&self, controller: &Controller) -> Option<Arc<dyn Partition>> {
        match controller.shard_of() {
            Some(of) => Some(self.0.get(of)?.shard_of_task(controller.name())),
            None => Some(Arc::new(self.0.get(controller.name())?.clone())),
        }
    }
}

/// Checks that the controllers exist in whose shards tasks run.
///
/// # Errors
/// If a task names a controller that is not one of these, or has no shards.
pub(super) fn check_tasks(controllers: &[Controller]) -> Result<(), ConfigError> {
    for task in controllers {
        let Some(of) = task.shard_of() else { continue };
        if !controllers.iter().any(|one| one.name() == of && one.has_shards()) {
            let problem = format!(
                "the program has no controller `{of}` with shards: write the name of one that has the key `shards`, and run \
                 it in the same program"
            );
            return Err(task.error("shard_of", ConfigErrorKind::Missing, problem));
        }
    }
    Ok(())
}

fn sharding(
    controller: &Controller,
    (installation, namespace): (&Installation, &str),
    process: &Process,
) -> Result<Option<Sharding>, ConfigError> {
    let client = process.lease_client.clone().or_else(|| process.client.clone());
    let leases = controller.shard_leases(installation, namespace);
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
    sharding.map(Some).map_err(|error| controller.error("shards", ConfigErrorKind::OutOfRange, error))
}
