//! The admission of keys to a controller's queue.

use crate::object::key::ObjectKey;

/// Decides which keys are queued, and learns how their calls end. It is asked after the
/// controller itself, which admits no key while another replica leads.
pub trait Admission: Send + Sync {
    /// Returns `true` if a key is queued because of an event. An admitted key is returned later,
    /// unless the controller ends first.
    fn admits(&self, key: &ObjectKey) -> bool;

    /// Returns `true` if keys run again without another event: after a failure, by a requeue or a
    /// resync.
    fn repeats(&self) -> bool;

    /// A call of a key has ended, with this error if it failed for more than a conflict.
    fn ended(&self, key: &ObjectKey, result: Result<(), &str>);

    /// A worker has given a key back, whether it was called or not.
    fn returned(&self, key: &ObjectKey);

    /// Returns `true` if no write of a call takes effect.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// Admits every key.
pub(crate) struct AdmitAll;

impl Admission for AdmitAll {
    fn admits(&self, _: &ObjectKey) -> bool {
        true
    }

    fn repeats(&self) -> bool {
        true
    }

    fn ended(&self, _: &ObjectKey, _: Result<(), &str>) {}

    fn returned(&self, _: &ObjectKey) {}
}
