//! One pass over all objects: each controller handles each of its objects once.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::{DryRun, lock};
use crate::object::key::ObjectKey;
use crate::queue::Admission;

/// One pass of all controllers of a program.
#[derive(Debug)]
pub struct Pass {
    pub(crate) dry_run: Arc<DryRun>,
    /// The only objects that are handled, by the controller; `None` for all.
    only: Option<BTreeMap<String, BTreeSet<ObjectKey>>>,
    counts: watch::Sender<Counts>,
    results: Mutex<PassResults>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// The controllers that are not ready for their first call.
    starting: usize,
    /// The keys that are queued or handled.
    open: usize,
}

/// The results of a pass, of all its controllers.
#[derive(Debug, Clone, Default)]
pub struct PassResults {
    /// The calls that succeeded.
    pub handled: usize,
    /// The calls that failed: controller, key and why.
    pub failed: Vec<(Arc<str>, ObjectKey, String)>,
    /// Problems that kept the pass from being complete, each with its controller.
    pub problems: Vec<(Arc<str>, String)>,
    /// Remarks that are not problems, each with its controller.
    pub notes: Vec<(Arc<str>, String)>,
    /// The objects of `only` that no call was for, each with its controller.
    pub unseen: Vec<(Arc<str>, ObjectKey)>,
}

/// The part of one controller.
#[derive(Debug)]
pub(crate) struct DryRunTracker {
    pass: Arc<Pass>,
    controller: Arc<str>,
    only: Option<BTreeSet<ObjectKey>>,
    state: Mutex<TurnState>,
}

#[derive(Debug)]
struct TurnState {
    starting: bool,
    /// The controller takes no keys.
    gave_up: bool,
    seen: HashSet<ObjectKey>,
    open: usize,
}

impl Pass {
    /// A pass over the objects of each controller that are named, or over all.
    pub fn new(dry_run: Arc<DryRun>, only: Option<BTreeMap<String, BTreeSet<ObjectKey>>>) -> Self {
        Self { dry_run, only, counts: watch::Sender::default(), results: Mutex::default() }
    }

    /// Adds a controller.
    pub(crate) fn join(self: &Arc<Self>, controller: &Arc<str>) -> Arc<DryRunTracker> {
        self.counts.send_modify(|counts| counts.starting += 1);
        let only = self.only.as_ref().map(|only| only.get(&**controller).cloned().unwrap_or_default());
        let state = TurnState { starting: true, gave_up: false, seen: HashSet::new(), open: 0 };
        Arc::new(DryRunTracker { pass: self.clone(), controller: controller.clone(), only, state: Mutex::new(state) })
    }

    /// Waits until every object was handled.
    pub async fn over(&self) {
        // The sender is a field of `self`, so it exists.
        let _ = self.counts.subscribe().wait_for(|counts| counts.starting == 0 && counts.open == 0).await;
    }

    /// The results so far.
    pub fn results(&self) -> PassResults {
        lock(&self.results).clone()
    }
}

impl Admission for DryRunTracker {
    /// Once, and never again.
    fn admits(&self, key: &ObjectKey) -> bool {
        if self.only.as_ref().is_some_and(|only| !only.contains(key)) {
            return false;
        }
        let mut state = lock(&self.state);
        let admitted = !state.gave_up && state.seen.insert(key.clone());
        if admitted {
            state.open += 1;
            self.pass.counts.send_modify(|counts| counts.open += 1);
        }
        admitted
    }

    fn repeats(&self) -> bool {
        false
    }

    fn ended(&self, key: &ObjectKey, result: Result<(), &str>) {
        let mut results = lock(&self.pass.results);
        match result {
            Ok(()) => results.handled += 1,
            Err(why) => results.failed.push((self.controller.clone(), key.clone(), why.to_owned())),
        }
    }

    fn returned(&self, _: &ObjectKey) {
        let mut state = lock(&self.state);
        if state.open > 0 {
            state.open -= 1;
            self.pass.counts.send_modify(|counts| counts.open -= 1);
        }
    }
}

impl DryRunTracker {
    pub(crate) fn problem(&self, problem: String) {
        lock(&self.pass.results).problems.push((self.controller.clone(), problem));
    }

    pub(crate) fn note(&self, note: String) {
        lock(&self.pass.results).notes.push((self.controller.clone(), note));
    }

    /// The controller handles nothing.
    pub(crate) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.gave_up = true;
        let open = std::mem::take(&mut state.open);
        self.pass.counts.send_modify(|counts| counts.open -= open);
    }

    /// The controller is ready for its first call, or never will be.
    pub(crate) fn started(&self) {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.starting) {
            let unseen = self.only.iter().flatten().filter(|key| !state.seen.contains(*key));
            let unseen = unseen.map(|key| (self.controller.clone(), key.clone()));
            lock(&self.pass.results).unseen.extend(unseen);
            self.pass.counts.send_modify(|counts| counts.starting -= 1);
        }
    }

    /// Waits until all controllers are ready: then their caches are complete.
    pub(crate) async fn all_started(&self) {
        let _ = self.pass.counts.subscribe().wait_for(|counts| counts.starting == 0).await;
    }
}

/// Ends the part of a controller with it, even if it panics: the others do not wait
/// for it forever.
#[derive(Debug)]
pub(crate) struct Leaving(pub(crate) Arc<DryRunTracker>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.give_up();
        self.0.started();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("shop", name)
    }

    fn is_over(pass: &Pass) -> bool {
        pass.over().now_or_never().is_some()
    }

    #[test]
    fn each_key_is_admitted_once_and_the_pass_ends_with_the_last_one() {
        let pass = Arc::new(Pass::new(Arc::default(), None));
        let (one, other) = (pass.join(&"one".into()), pass.join(&"other".into()));
        assert!(one.admits(&key("a")) && !one.admits(&key("a")) && other.admits(&key("a")));
        one.started();
        one.started();
        assert!(one.all_started().now_or_never().is_none(), "the caches of the other one are not complete");
        other.started();
        assert!(one.all_started().now_or_never().is_some());
        one.returned(&key("a"));
        assert!(!is_over(&pass));
        // A call leads to another object.
        assert!(one.admits(&key("b")));
        other.returned(&key("a"));
        assert!(!is_over(&pass));
        one.returned(&key("a"));
        assert!(is_over(&pass));
        assert!(!one.admits(&key("a")));
    }

    #[test]
    fn a_controller_that_gives_up_delays_nothing() {
        let pass = Arc::new(Pass::new(Arc::default(), None));
        let (one, other) = (pass.join(&"one".into()), pass.join(&"other".into()));
        assert!(one.admits(&key("a")) && other.admits(&key("a")));
        one.give_up();
        one.started();
        assert!(!one.admits(&key("b")));
        drop(Leaving(other));
        assert!(is_over(&pass));
        one.returned(&key("a"));
        assert!(is_over(&pass));
    }

    #[test]
    fn only_the_named_objects_are_handled() {
        let only = BTreeMap::from([("one".to_owned(), BTreeSet::from([key("a"), key("b")]))]);
        let pass = Arc::new(Pass::new(Arc::default(), Some(only)));
        let (one, other) = (pass.join(&"one".into()), pass.join(&"other".into()));
        assert!(one.admits(&key("a")) && !one.admits(&key("c")) && !other.admits(&key("a")));
        one.started();
        other.started();
        assert_eq!(pass.results().unseen, [("one".into(), key("b"))]);
    }
}
