//! Cleaning up before an object is removed, guaranteed by a finalizer.
//!
//! The finalizer is set before the handler is called for the object, and removed
//! when `cleanup` is done. The list of finalizers is only changed in the version
//! that it was read from, so that those of others are not lost.

mod forgotten_finalizers;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::call::Call;
use crate::call::action::Action;
use crate::call::attempt::{CallOutcome, CallResult, Failure};
use crate::call::context::{ControllerContext, Written};
use crate::call::handler::DynHandler;
use crate::call::lookup::{Lookup, UpdateResult};
use crate::error::BoxError;
use crate::object::key::ObjectKey;
use crate::object::sections::Changed;
use crate::object::{DecodeError, Object, differs};
use crate::queue::WriteOrigin;
use crate::watch::store::Cache;

pub(crate) use forgotten_finalizers::ForgottenFinalizers;
pub use forgotten_finalizers::set_by;

/// Maximum number of attempts to update the finalizers of an object in one call.
const CONFLICTS: usize = 8;

/// The most repetitions of `cleanup` within a call because the object has changed. One that writes to it each time would
/// not end.
const REPEATS: usize = 3;

/// The sections of an object that `cleanup` may have read.
const READ: [Changed; 4] = [Changed::Generation, Changed::Labels, Changed::Annotations, Changed::Status];

/// The finalizers of one controller.
#[derive(Debug, Clone)]
pub struct Finalizers {
    /// The finalizer that is set.
    pub own: String,
    /// Those of previous names, which are replaced.
    pub(crate) previous: Vec<String>,
    /// `true` if objects that leave the selector are cleaned up, too.
    pub(crate) on_leave: bool,
    /// Set while the program is uninstalled.
    pub(crate) retirement: Option<Retirement>,
}

/// Which objects are cleaned up while the program is uninstalled. No handler is
/// called, and no finalizer is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retirement {
    /// Those that are being deleted.
    Deleted,
    /// All that have a finalizer.
    All,
}

impl Finalizers {
    /// Returns `true` if the object waits for its cleanup.
    pub(crate) fn hold(&self, object: &Object) -> bool {
        object.is_terminating() && self.are_on_object(object)
    }

    /// Returns whether an object is cleaned up while the program is uninstalled; `None` if
    /// the program is not being uninstalled.
    pub(crate) fn retire(&self, object: &Object) -> Option<bool> {
        let retirement = self.retirement?;
        Some(self.hold(object) || retirement == Retirement::All && self.are_on_object(object))
    }

    /// Returns `true` if an object that is not selected needs a call.
    pub(crate) fn concern(&self, object: &Object) -> bool {
        (self.on_leave || object.is_terminating()) && self.are_on_object(object)
    }

    /// Returns `true` if the object has one of our finalizers.
    #[must_use]
    pub fn are_on_object(&self, object: &Object) -> bool {
        object.finalizers().is_ok_and(|finalizers| self.are_among(&finalizers))
    }

    /// Returns `true` if the list contains one of our finalizers.
    #[must_use]
    pub fn are_among(&self, list: &[String]) -> bool {
        list.iter().any(|one| self.is_ours(one))
    }

    fn is_ours(&self, finalizer: &str) -> bool {
        self.own == finalizer || self.previous.iter().any(|previous| previous == finalizer)
    }

    /// The list with ours in it, and no previous one.
    fn added(&self, present: &[String]) -> Vec<String> {
        let mut list: Vec<String> =
            present.iter().filter(|one| **one == self.own || !self.is_ours(one)).cloned().collect();
        if !list.contains(&self.own) {
            list.push(self.own.clone());
        }
        list
    }

    /// The list with none of ours in it.
    #[must_use]
    pub fn removed(&self, present: &[String]) -> Vec<String> {
        present.iter().filter(|one| !self.is_ours(one)).cloned().collect()
    }
}

/// A handler whose objects are cleaned up before they are removed.
pub(crate) struct Finalizing {
    pub(crate) finalizers: Finalizers,
    pub(crate) handler: Arc<dyn DynHandler>,
    pub(crate) cleanup: Arc<dyn DynHandler>,
    pub(crate) lookup: Lookup,
    pub(crate) controller: Arc<ControllerContext>,
}

impl Finalizing {
    async fn handle(&self, mut object: Arc<Object>, call: Call) -> Result<Action, Failure> {
        if let Some(retires) = self.finalizers.retire(&object) {
            return if retires { self.clean_up(object, call).await } else { Ok(Action::done()) };
        }
        for _ in 0..CONFLICTS {
            if object.is_terminating() {
                return self.clean_up(object, call).await;
            }
            let present = object.finalizers().map_err(Failure::Decode)?;
            let wanted = self.finalizers.added(&present);
            if wanted == present {
                return self.handler.call(object, call).await;
            }
            // An object that neither the handler nor `cleanup` can decode gets no finalizer.
            self.handler.fits(&object).map_err(Failure::Decode)?;
            let Some(now) = self.set(&object, &wanted, &call).await? else { return Ok(Action::done()) };
            object = now;
        }
        Err(self.contention(object.key()))
    }

    /// Calls `cleanup` if the object has our finalizer, and removes that if it is done. A newer version of the object may
    /// name more that is to be cleaned up, such as the id of what was created last.
    async fn clean_up(&self, mut object: Arc<Object>, call: Call) -> Result<Action, Failure> {
        let (mut seen, mut calls) = (object.clone(), 0);
        for _ in 0..CONFLICTS {
            let present = object.finalizers().map_err(Failure::Decode)?;
            let wanted = self.finalizers.removed(&present);
            if wanted == present {
                return Ok(Action::done());
            }
            if calls == 0 || (calls <= REPEATS && differs(&seen, &object, &READ)) {
                calls += 1;
                seen = object.clone();
                let action = self.cleanup.call(object.clone(), call.clone()).await?;
                if action.delay().is_some() {
                    return Ok(action);
                }
            }
            let Some(now) = self.set(&object, &wanted, &call).await? else { return Ok(Action::done()) };
            object = now;
        }
        Err(self.contention(object.key()))
    }

    fn contention(&self, key: &ObjectKey) -> Failure {
        let resource = self.lookup.kind.resource();
        boxed(format!("{resource} {key} changes faster than its finalizers can be set ({CONFLICTS} attempts)"))
    }

    /// Sets the finalizers. Returns the object as it is then, also after a
    /// conflict; `None` if it is gone.
    async fn set(&self, object: &Object, finalizers: &[String], call: &Call) -> Result<Option<Arc<Object>>, Failure> {
        let key = object.key();
        let now = match self.lookup.set_finalizers(object, finalizers, call).await.map_err(boxed)? {
            UpdateResult::Done(now) => {
                let written = Written { kind: &self.controller.kind, key, uid: now.uid(), now: unless_removed(&now) };
                self.controller.wrote(key, &written, WriteOrigin::Silent);
                Some(now)
            }
            UpdateResult::Conflict => self.lookup.get(key).await.map_err(boxed)?,
            UpdateResult::Gone => None,
        };
        // Another object may have the name by now. Its own watch event queues it.
        Ok(now.filter(|now| now.uid() == object.uid()))
    }
}

impl DynHandler for Arc<Finalizing> {
    fn call(&self, object: Arc<Object>, call: Call) -> BoxFuture<'static, Result<Action, Failure>> {
        let finalizing = self.clone();
        Box::pin(async move { finalizing.handle(object, call).await })
    }

    fn fits(&self, object: &Object) -> Result<(), DecodeError> {
        self.handler.fits(object)
    }
}

/// The objects with our finalizer that the selector does not select.
pub(crate) struct UnselectedObjects {
    pub(crate) finalizing: Arc<Finalizing>,
    /// The metadata of all objects, selected or not.
    pub(crate) all: Cache,
}

impl UnselectedObjects {
    /// The object of the key, if it has our finalizer as far as the cache knows.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.all.get(key).filter(|object| self.is_marked(object))
    }

    fn is_marked(&self, object: &Object) -> bool {
        self.finalizing.finalizers.are_on_object(object)
    }

    /// Handles an object that the controller's own cache does not have.
    pub(crate) async fn handle(&self, marked: &Object, call: Call) -> CallResult {
        let Some(object) = self.find(marked).await.map_err(Failure::Handler)? else { return Ok(CallOutcome::Gone) };
        if self.finalizing.finalizers.concern(&object) {
            return self.finalizing.clean_up(object, call).await.map(CallOutcome::Done);
        }
        Ok(CallOutcome::Abandoned)
    }

    /// The object, if it is being deleted, or the selector does not select it any more.
    async fn find(&self, marked: &Object) -> Result<Option<Arc<Object>>, BoxError> {
        let Finalizing { lookup, controller, .. } = &*self.finalizing;
        let key = marked.key();
        // The caches may lag behind each other, so the object is read from the API server. Another one that has the name now
        // may be in the shard of another replica; its own event queues it.
        let is_it = |object: &Arc<Object>| object.uid() == marked.uid() && self.is_marked(object);
        let Some(object) = lookup.get(key).await?.filter(is_it) else { return Ok(None) };
        // The next change of a paused object, such as the end of the pause, queues it again.
        let has_left =
            object.is_terminating() || (!lookup.selects(key).await? && !controller.annotations.is_paused(&object));
        Ok(has_left.then_some(object))
    }
}

/// An object whose finalizers were set, unless that has removed it: the response is then the object as it was before.
fn unless_removed(now: &Object) -> Option<&Object> {
    (!now.is_terminating() || now.remains()).then_some(now)
}

fn boxed(error: impl Into<BoxError>) -> Failure {
    Failure::Finalizer(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn an_object_without_finalizers_is_removed_unless_its_grace_period_keeps_it() {
        let deleted = r#""deletionTimestamp":"2026-01-01T00:00:00Z""#;
        for (metadata, remains) in [
            (r#""finalizers":[]"#.to_owned(), true),
            (deleted.to_owned(), false),
            (format!(r#"{deleted},"deletionGracePeriodSeconds":0"#), false),
            (format!(r#"{deleted},"deletionGracePeriodSeconds":30"#), true),
            (format!(r#"{deleted},"finalizers":["x/1"]"#), true),
        ] {
            let object = Object::parse(format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#).as_bytes()).unwrap();
            assert_eq!(unless_removed(&object).is_some(), remains, "{metadata}");
        }
    }

    #[test]
    fn other_finalizers_keep_their_order() {
        let finalizers = Finalizers {
            own: "shop.io/a".to_owned(),
            previous: list(&["shop.io/old"]),
            on_leave: false,
            retirement: None,
        };
        assert_eq!(finalizers.added(&list(&["x/1", "shop.io/old", "y/2"])), list(&["x/1", "y/2", "shop.io/a"]));
        assert_eq!(finalizers.added(&list(&["shop.io/a", "y/2"])), list(&["shop.io/a", "y/2"]));
        assert_eq!(finalizers.removed(&list(&["x/1", "shop.io/old", "shop.io/a", "y/2"])), list(&["x/1", "y/2"]));
    }
}
