//! The controller and the process that a Lease names.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kooper_runtime::internal::leader::MARK;
use kooper_sharding::SHARDS_MARK;
use kube::ResourceExt;

/// The controller that a Lease belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseOwnerMark<'a> {
    /// The program, with its instance name if it has one.
    pub(super) installation: &'a str,
    pub(super) controller: &'a str,
}

impl<'a> LeaseOwnerMark<'a> {
    /// The mark of a Lease with leader election or shards; `None` if no controller has acquired it.
    pub(super) fn of(lease: &'a Lease) -> Option<Self> {
        let (installation, controller) = lease.annotations().get(MARK)?.split_once('/')?;
        Some(Self { installation, controller: controller.strip_suffix(SHARDS_MARK).unwrap_or(controller) })
    }

    pub(super) fn program(&self) -> &'a str {
        self.installation.split('.').next().unwrap_or_default()
    }
}

/// The time for [`holder`] where a Lease that only seems to have expired would do harm: a minute ago. The clock of this
/// machine and that of the holder may differ.
pub(super) fn cautious_now() -> Timestamp {
    Timestamp::now() - SignedDuration::from_mins(1)
}

/// The process that holds a Lease at a time.
pub(super) fn holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let renewed = spec.renew_time.as_ref()?.0;
    let held = now.duration_since(renewed) < SignedDuration::from_secs(seconds);
    held.then_some(holder)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn a_lease_is_held_until_it_is_released_or_expires() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let lease = |holder: &str| Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(15),
                renew_time: Some(MicroTime(at(100))),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        };
        assert_eq!(holder(&lease("a"), at(114)), Some("a"));
        assert_eq!(holder(&lease("a"), at(115)), None);
        assert_eq!(holder(&lease(""), at(100)), None);
        assert_eq!(holder(&Lease::default(), at(100)), None);
        // The clock of its holder is ahead.
        assert_eq!(holder(&lease("a"), at(40)), Some("a"));
    }
}
