//! The state of a running pass.

use std::collections::BTreeMap;
use std::time::Duration;

use kooper_runtime::internal::error::{RetryHint, chain, retry_hint};
use kooper_runtime::{BoxError, HandlerError};

use crate::function::AnyObject;
use crate::observed::{ChildId, Observed, Write};
use crate::record::{ChildObject, Found};

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

    /// Keeps the first error, and returns its text. One that is retried comes before one that is not.
    pub(super) fn fail(&mut self, error: BoxError) -> String {
        let text = chain(&*error);
        if self.error.as_ref().is_none_or(|first| retry_hint(&**first, None) == RetryHint::Never) {
            self.error = Some(error);
        }
        text
    }

    /// Keeps an error that a retry cannot fix, and returns its text.
    pub(super) fn stall(&mut self, error: BoxError) -> String {
        let text = chain(&*error);
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
}
