//! The settings of a user for shards.

use std::time::Duration;

use kooper_base::leader::LeaderElection;
use kooper_base::leader::lease_state::Terms;
use kooper_grammar::name;

use crate::hash::{BUCKETS, ShardCount, ShardCountError, ShardField};

/// The most replicas that share a controller.
const MOST_MEMBERS: u8 = 64;

/// The shards of a controller: every replica handles a part of the objects, and no object is
/// handled by two at the same time.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::Controller;
/// use kooper::shards::Shards;
///
/// let builder = Controller::builder::<Pod>("shop").shards(Shards::new(32).members(16));
/// # let _ = builder;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the settings have no effect until they are passed to a controller"]
pub struct Shards {
    count: u16,
    by: ShardField,
    members: u8,
    /// The settings of the Leases, as of a leader election.
    election: LeaderElection,
}

impl Shards {
    /// This many shards: a power of two, at most 256, and best eight for each replica. With one shard, one replica
    /// works and the others stand by, as with leader election.
    pub fn new(count: u16) -> Self {
        Self { count, by: ShardField::Uid, members: 8, election: LeaderElection::new() }
    }

    /// The namespace of an object decides its shard, and not its uid.
    #[doc(hidden)]
    pub fn by_namespace(mut self) -> Self {
        self.by = ShardField::Namespace;
        self
    }

    /// Sets the most replicas that work at the same time, those that a roll-out adds included. One
    /// more is ready, and waits until another one stops. Default: 8.
    pub fn members(mut self, members: u8) -> Self {
        self.members = members;
        self
    }

    /// Sets the name of the Lease with the map; those of the replicas are named after it. The default is
    /// `<program>-<controller>`. A controller that had a leader election with another Lease keeps that.
    pub fn lease(mut self, name: impl Into<String>) -> Self {
        self.election = self.election.lease(name);
        self
    }

    /// Sets the namespace of the Leases. The default is that of the pod.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.election = self.election.namespace(namespace);
        self
    }

    /// Sets the time after which the shards of a replica that died are taken over. Default: 15 s.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.election = self.election.lease_duration(duration);
        self
    }

    /// Sets how long a replica tries to renew its Lease before it stops working. Default: 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.election = self.election.renew_deadline(deadline);
        self
    }

    /// Sets the time between two attempts. Default: 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.election = self.election.retry_period(period);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first rule that is violated.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), String> {
        ShardCount::try_from(self.count).map_err(|error| error.to_string())?;
        if self.members < 2 || self.members > MOST_MEMBERS {
            return Err(format!("`members` must be from 2 to {MOST_MEMBERS}"));
        }
        let (lease, namespace) = self.place();
        match lease {
            Some("") => return Err("`lease` is empty: write the name of the Lease, or leave it out".to_owned()),
            // The longest of them.
            Some(lease) => {
                let last = self.leases(lease).pop().unwrap_or_default();
                let named = name::subdomain(lease).and_then(|()| name::subdomain(&last));
                named.map_err(|error| format!("`lease`: {error}"))?;
            }
            None => {}
        }
        if namespace == Some("") {
            return Err("`namespace` is empty: write the Leases' namespace, or leave it out".to_owned());
        }
        self.election.check().map_err(|error| error.to_string())
    }

    /// The most replicas.
    #[doc(hidden)]
    #[must_use]
    pub fn most_members(&self) -> u8 {
        self.members
    }

    /// The duration of a lease in seconds, rounded up.
    #[doc(hidden)]
    #[must_use]
    pub fn lease_seconds(&self) -> u64 {
        let lease = self.terms().lease;
        lease.as_secs() + u64::from(lease.subsec_nanos() > 0)
    }

    /// The names of the Leases, from that of the map: it, and one for each replica.
    #[doc(hidden)]
    #[must_use]
    pub fn leases(&self, map: &str) -> Vec<String> {
        std::iter::once(map.to_owned()).chain((0..self.members).map(|slot| format!("{map}--{slot}"))).collect()
    }

    /// The name of the Lease with the map and the namespace of all Leases, as far as they are set.
    #[doc(hidden)]
    #[must_use]
    pub fn place(&self) -> (Option<&str>, Option<&str>) {
        self.election.place()
    }

    /// The field that decides the shard.
    pub(crate) fn field(&self) -> ShardField {
        self.by
    }

    pub(crate) fn count(&self) -> Result<ShardCount, ShardCountError> {
        self.count.try_into()
    }

    pub(crate) fn terms(&self) -> Terms {
        self.election.terms()
    }

    /// The time between the end of a token and the end of its lease.
    pub(crate) fn margin(&self) -> Duration {
        self.election.margin()
    }
}

const _: () = assert!(BUCKETS == 256, "the documentation names the number");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_valid_is_named() {
        for (shards, problem) in [
            (Shards::new(48), "48 shards: a power of two"),
            (Shards::new(32).members(1), "`members` must be"),
            (Shards::new(32).lease(""), "`lease` is empty"),
            (Shards::new(32).lease("The orders"), "`lease`: \"The orders\" is not"),
            (Shards::new(32).lease("o".repeat(252)), "`lease`: \"ooo"),
            (Shards::new(32).namespace(""), "`namespace` is empty"),
        ] {
            let refused = shards.check().unwrap_err();
            assert!(refused.starts_with(problem), "{refused}");
        }
        assert_eq!(Shards::new(1).lease("orders.shop").check(), Ok(()));
    }
}
