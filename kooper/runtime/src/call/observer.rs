//! Observers of the calls of a controller.
//!
//! They change nothing. What a call means for its key is decided before they are notified.

use std::sync::Arc;
use std::time::Duration;

use crate::call::attempt::{Attempt, Failure};
use crate::call::context::ControllerContext;
use crate::error::RetryHint;
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::queue::{Item, NextRun};
use crate::watch::store::{Cache, Change};

/// Makes the observers of a controller's calls. The cache has all objects of its kind, selected or not, if they are
/// watched.
pub type Observe = Box<dyn FnOnce(&Arc<ControllerContext>, Option<Cache>) -> Vec<Arc<dyn CallObserver>> + Send>;

/// Observes what becomes of the keys that workers take from the queue.
pub trait CallObserver: Send + Sync {
    /// A worker has taken a key.
    fn taken(&self, _: &Item) {}

    /// A call has ended. Its key is still locked: no other call of it has begun.
    fn ended(&self, _: &EndedCall<'_>) {}

    /// The key of an ended call was returned to the queue. The next call of it may have begun.
    fn returned(&self, _: &EndedCall<'_>, _: NextRun) {}

    /// A call of `deleted` has ended, and is not repeated.
    fn deleted(&self, _: &Attempt, _: Option<&Failure>, _took: Duration) {}

    /// A call has not ended so long `after` it was cancelled for this reason. Its key stays locked. So many are `stuck`.
    fn stuck(&self, _: &Attempt, _: &Failure, _after: Duration, _stuck: usize) {}

    /// A call still runs, for so long that its key has recovered. As many other keys are retried because of it.
    fn recovered(&self, _: &Attempt, _released: usize) {}

    /// The object of a key is gone, which took this time to find out. `None` if `deleted` was called for it.
    fn gone(&self, _: &ObjectKey, _took: Option<Duration>) {}

    /// The object of a call has left the selector and keeps the finalizer, and no handler was called for it.
    fn abandoned(&self, _: &Attempt) {}

    /// An object is being deleted and keeps this finalizer, which the handler has set and nothing removes.
    fn forgotten_finalizers(&self, _: &Object, _finalizer: &str) {}

    /// A user has paused an object, or resumed it.
    fn paused(&self, _: &Object) {}

    /// An object that is being deleted has changed, or an object is gone, as the watch shows it, also while another
    /// replica leads. A call only finds the state at its beginning.
    fn deletion(&self, _: &Change) {}

    /// Nothing is called for the object of a key any more.
    fn ignored(&self, _: &ObjectKey) {}

    /// This replica leads, and no key is handled yet. If it has led before, [`gone`](Self::gone) was not called since for
    /// the keys that no longer exist.
    fn term_begins(&self, _exists: &dyn Fn(&ObjectKey) -> bool) {}

    /// Another replica leads, and handles all keys.
    fn term_ended(&self) {}
}

/// A call that has ended.
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// The call.
    pub attempt: &'a Attempt,
    /// Its outcome.
    pub outcome: Outcome<'a>,
    /// Its duration.
    pub took: Duration,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy)]
pub enum Outcome<'a> {
    /// It succeeded, and may have requested a requeue after a delay.
    Success(Option<Duration>),
    /// It failed, without a consequence: it was the last call for an object that is
    /// being deleted.
    Deleted(&'a Failure),
    /// An object had changed since it was read; the call is repeated at once.
    Conflict(&'a Failure),
    /// It failed, and is retried like this.
    Failure(&'a Failure, RetryHint),
}

/// All observers of a controller's calls, notified one after the other.
pub(crate) struct Observers(pub(crate) Vec<Arc<dyn CallObserver>>);

impl Observers {
    pub(crate) fn each(&self, notify: impl Fn(&dyn CallObserver)) {
        self.0.iter().for_each(|one| notify(&**one));
    }
}
