//! What a user says about shards.

use std::time::Duration;

use kooper_base::leader::lease_state::Terms;
use kooper_grammar::lease as timing;
use kooper_grammar::name;

use crate::hash::{BUCKETS, By, ShardCount, ShardCountError};

/// The most replicas that share a controller.
const MOST_MEMBERS: u8 = 64;

/// The longest lease: a day. The field of the record is limited.
const MOST_SECONDS: u64 = 24 * 3600;

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
    by: By,
    members: u8,
    namespace: Option<String>,
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Shards {
    /// This many shards: a power of two, at most 256, and best eight for each replica.
    pub fn new(count: u16) -> Self {
        Self {
            count,
            by: By::Uid,
            members: 8,
            namespace: None,
            lease_duration: timing::LEASE_DURATION,
            renew_deadline: timing::RENEW_DEADLINE,
            retry_period: timing::RETRY_PERIOD,
        }
    }

    /// The namespace of an object decides its shard, and not its uid.
    #[doc(hidden)]
    pub fn by_namespace(mut self) -> Self {
        self.by = By::Namespace;
        self
    }

    /// Sets the most replicas that work at the same time, those that a roll-out adds included. One
    /// more is ready, and waits until another one stops. Default: 8.
    pub fn members(mut self, members: u8) -> Self {
        self.members = members;
        self
    }

    /// Sets the namespace of the Leases. The default is that of the pod.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the time after which the shards of a replica that died are taken over. Default: 15 s.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// Sets how long a replica tries to renew its Lease before it stops working. Default: 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.renew_deadline = deadline;
        self
    }

    /// Sets the time between two attempts. Default: 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.retry_period = period;
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
        match self.namespace.as_deref() {
            Some("") => return Err("`namespace` is empty: write the Leases' namespace, or leave it out".to_owned()),
            Some(namespace) => name::label(namespace).map_err(|error| format!("`namespace`: {error}"))?,
            None => {}
        }
        if self.lease_duration.as_secs() > MOST_SECONDS {
            return Err(format!("`lease_duration` is too long: write at most {MOST_SECONDS} s, a day"));
        }
        timing::check(self.lease_duration, self.renew_deadline, self.retry_period).map_err(|error| error.to_string())
    }

    /// The most replicas.
    #[doc(hidden)]
    #[must_use]
    pub fn most_members(&self) -> u8 {
        self.members
    }

    /// The names of the Leases: that of the map, and one for each replica.
    #[doc(hidden)]
    #[must_use]
    pub fn leases(&self, name: impl Fn(&str) -> String) -> Vec<String> {
        std::iter::once(name("")).chain((0..self.members).map(|slot| name(&format!("--{slot}")))).collect()
    }

    /// The namespace of the Leases.
    #[doc(hidden)]
    #[must_use]
    pub fn lease_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The field that decides the shard.
    pub(crate) fn field(&self) -> By {
        self.by
    }

    pub(crate) fn count(&self) -> Result<ShardCount, ShardCountError> {
        self.count.try_into()
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms::new(self.lease_duration, self.renew_deadline, self.retry_period)
    }

    /// The time between the end of a token and the end of its lease.
    pub(crate) fn margin(&self) -> Duration {
        self.lease_duration.saturating_sub(self.terms().validity)
    }
}

const _: () = assert!(BUCKETS == 256, "the documentation names the number");
