//! The state of a running pass.

use std::collections::BTreeMap;
use std::time::Duration;

use kooper_runtime::internal::error::refusal::is_missing_rule;
use kooper_runtime::internal::error::{RetryHint, public_chain, retry_hint};
use kooper_runtime::{BoxError, HandlerError};

use crate::function::AnyObject;
use crate::observed::{ChildId, Observed, Write};
use crate::record::{ChildObject, Found};

/// The deletion of a child is an own write, whose event does not repeat a call that has failed.
const AFTER_DELETION: Duration = Duration::from_secs(1);

/// An owner with other slots is called again this long after a permission was missing, and at once after a change.
const MISSING_RULE_AGAIN: Duration = Duration::from_secs(30);

/// The state of a running pass.
pub(super) struct Progress {
    pub(super) observed: Observed,
    /// The objects behind the names: those that exist.
    pub(super) objects: BTreeMap<ChildId, ChildObject>,
    /// The children that the functions have returned.
    pub(super) wanted: BTreeMap<ChildId, AnyObject>,
    pub(super) error: Option<BoxError>,
    /// The time until a slot that was unstable is applied again, or until children that no cache has are looked up
    /// again.
    pub(super) pause: Option<Duration>,
    /// A child was deleted, after which the next pass goes on.
    pub(super) has_deleted: bool,
}

impl Progress {
    pub(super) fn found(&mut self, (id, child, object): Found) {
        self.observed.children.insert(id.clone(), child);
        self.objects.insert(id, object);
    }

    /// Keeps the first error, and returns its text for the status, which more people read than the log. One that is retried
    /// comes before one that is not.
    pub(super) fn fail(&mut self, error: BoxError) -> String {
        let text = public_chain(&*error);
        if self.error.as_ref().is_none_or(|first| retry_hint(&**first, None) == RetryHint::Never) {
            self.error = Some(error);
        }
        text
    }

    /// Keeps an error that a retry cannot fix, and returns its text.
    pub(super) fn stall(&mut self, error: BoxError) -> String {
        let text = public_chain(&*error);
        self.error.get_or_insert_with(|| HandlerError::permanent(error).into());
        text
    }

    /// Notes that a deletion or labels were refused, so that it is not tried again in this pass.
    pub(super) fn refuse(&mut self, id: ChildId, error: BoxError) {
        let why = self.fail(error);
        self.written(&id, &Write::Refused(why.clone()));
        self.observed.refused.insert(id, why);
    }

    pub(super) fn written(&mut self, id: &ChildId, write: &Write) {
        let desired = self.observed.slots.iter_mut().flat_map(|slot| &mut slot.desired);
        desired.filter(|(one, _)| one == id).for_each(|(_, known)| *known = write.clone());
    }

    /// The error of the pass of so many slots, and when the owner is called again.
    pub(super) fn end(self, slots: usize) -> (Option<BoxError>, Option<Duration>) {
        let error = self.error.map(|error| match retry_hint(&*error, None) {
            RetryHint::Never if self.has_deleted => HandlerError::retry_after(AFTER_DELETION, error).into(),
            // With a missing permission, the owners take turns: all other slots would wait for the turn, too.
            RetryHint::Backoff if slots > 1 && is_missing_rule(&*error) => {
                HandlerError::retry_after(MISSING_RULE_AGAIN, error).into()
            }
            _ => error,
        });
        (error, self.pause)
    }
}
