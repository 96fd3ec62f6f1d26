//! The shards of a controller, and their Leases.

use kooper_sharding::Shards;

use super::Controller;
use crate::installation::Installation;

/// The Leases of a controller's shards.
#[doc(hidden)]
#[derive(Debug)]
pub struct ShardLeases<'a> {
    /// The settings.
    pub shards: &'a Shards,
    /// The namespace of the Leases.
    pub namespace: String,
    /// Their names: that of the map, and those of the sessions.
    pub names: Vec<String>,
    /// The mark of the controller in them.
    pub mark: String,
}

impl Controller {
    /// Returns `true` if the replicas share the objects.
    #[must_use]
    pub fn has_shards(&self) -> bool {
        self.description.shards.is_some()
    }

    /// The settings of its shards.
    #[doc(hidden)]
    #[must_use]
    pub fn shards(&self) -> Option<&Shards> {
        self.description.shards.as_ref()
    }

    /// The controller in one of whose shards it runs, if it is a task with [`shard_of`](super::Builder::shard_of).
    #[must_use]
    pub fn shard_of(&self) -> Option<&str> {
        self.description.shard_of.as_deref()
    }

    /// The settings of its shards, and the names and the namespace of their Leases in an installation.
    #[doc(hidden)]
    #[must_use]
    pub fn shard_leases(&self, installation: &Installation, namespace: &str) -> Option<ShardLeases<'_>> {
        let shards = self.shards()?;
        let (lease, own_namespace) = shards.place();
        let map = lease.map_or_else(|| format!("{}-{}", installation.program, self.name()), str::to_owned);
        let names = shards.leases(&map).iter().map(|name| installation.name(name)).collect();
        let namespace = own_namespace.unwrap_or(namespace).to_owned();
        Some(ShardLeases { shards, namespace, names, mark: self.field_manager(installation) })
    }
}
