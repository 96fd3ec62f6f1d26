//! One pass over all objects: each controller handles each of its objects once.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::DryRun;
use kooper_access::controller::operator::Builder;
use kooper_runtime::ObjectKey;
use kooper_runtime::internal::controller::pass::{ControllerPass, Pass};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::queue::Admission;
use kooper_runtime::internal::watch::informer::Watched;
use kooper_runtime::retriever::Scope;

/// One pass of all controllers of a program.
#[derive(Debug)]
pub(crate) struct DryRunPass {
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
pub(crate) struct PassResults {
    /// The calls that succeeded.
    pub(crate) handled: usize,
    /// The calls that failed: controller, key and why.
    pub(crate) failed: Vec<(Arc<str>, ObjectKey, String)>,
    /// Problems that kept the pass from being complete, each with its controller.
    pub(crate) problems: Vec<(Arc<str>, String)>,
    /// Remarks that are not problems, each with its controller.
    pub(crate) notes: Vec<(Arc<str>, String)>,
    /// The objects of `only` that no call was for, each with its controller.
    pub(crate) unseen: Vec<(Arc<str>, ObjectKey)>,
}

/// The part of one controller.
#[derive(Debug)]
pub(crate) struct DryRunTracker {
    pass: Arc<DryRunPass>,
    controller: Arc<str>,
    only: Option<BTreeSet<ObjectKey>>,
    state: Mutex<TrackerState>,
}

#[derive(Debug)]
struct TrackerState {
    starting: bool,
    /// The controller takes no keys.
    gave_up: bool,
    seen: HashSet<ObjectKey>,
    open: usize,
}

impl DryRunPass {
    /// Makes a run of the operator a dry run.
    pub(crate) fn attach(self: &Arc<Self>, operator: Builder) -> Builder {
        operator.client_layer(self.dry_run.layer()).pass(self.clone())
    }

    /// A pass over the objects of each controller that are named, or over all.
    pub(crate) fn new(dry_run: Arc<DryRun>, only: Option<BTreeMap<String, BTreeSet<ObjectKey>>>) -> Self {
        Self { dry_run, only, counts: watch::Sender::default(), results: Mutex::default() }
    }

    /// Waits until every object was handled.
    pub(crate) async fn over(&self) {
        // The sender is a field of `self`, so it exists.
        let _ = self.counts.subscribe().wait_for(|counts| counts.starting == 0 && counts.open == 0).await;
    }

    /// The results so far.
    pub(crate) fn results(&self) -> PassResults {
        self.results.lock().clone()
    }
}

impl Pass for DryRunPass {
    fn join(self: Arc<Self>, controller: &Arc<str>) -> Arc<dyn ControllerPass> {
        self.counts.send_modify(|counts| counts.starting += 1);
        let only = self.only.as_ref().map(|only| only.get(&**controller).cloned().unwrap_or_default());
        let state = TrackerState { starting: true, gave_up: false, seen: HashSet::new(), open: 0 };
        Arc::new(DryRunTracker { pass: self, controller: controller.clone(), only, state: Mutex::new(state) })
    }

    fn opened(&self, kind: &KindInfo, scope: &Scope, cache: &Arc<Watched>) {
        self.dry_run.mirror(kind, scope, cache);
    }
}

impl Admission for DryRunTracker {
    /// Once, and never again.
    fn admits(&self, key: &ObjectKey) -> bool {
        if self.only.as_ref().is_some_and(|only| !only.contains(key)) {
            return false;
        }
        let mut state = self.state.lock();
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

    fn is_dry_run(&self) -> bool {
        true
    }

    fn ended(&self, key: &ObjectKey, result: Result<(), &str>) {
        let mut results = self.pass.results.lock();
        match result {
            Ok(()) => results.handled += 1,
            Err(why) => results.failed.push((self.controller.clone(), key.clone(), why.to_owned())),
        }
    }

    fn returned(&self, _: &ObjectKey) {
        let mut state = self.state.lock();
        if state.open > 0 {
            state.open -= 1;
            self.pass.counts.send_modify(|counts| counts.open -= 1);
        }
    }
}

impl ControllerPass for DryRunTracker {
    fn problem(&self, problem: String) {
        self.pass.results.lock().problems.push((self.controller.clone(), problem));
    }

    fn note(&self, note: String) {
        self.pass.results.lock().notes.push((self.controller.clone(), note));
    }

    fn give_up(&self) {
        let mut state = self.state.lock();
        state.gave_up = true;
        let open = std::mem::take(&mut state.open);
        self.pass.counts.send_modify(|counts| counts.open -= open);
    }

    fn started(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.starting) {
            let unseen = self.only.iter().flatten().filter(|key| !state.seen.contains(*key));
            let unseen = unseen.map(|key| (self.controller.clone(), key.clone()));
            self.pass.results.lock().unseen.extend(unseen);
            self.pass.counts.send_modify(|counts| counts.starting -= 1);
        }
    }

    fn all_started(&self) -> BoxFuture<'_, ()> {
        async { drop(self.pass.counts.subscribe().wait_for(|counts| counts.starting == 0).await) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("shop", name)
    }

    fn is_over(pass: &DryRunPass) -> bool {
        pass.over().now_or_never().is_some()
    }

    #[test]
    fn each_key_is_admitted_once_and_the_pass_ends_with_the_last_one() {
        let pass = Arc::new(DryRunPass::new(Arc::default(), None));
        let (one, other) = (pass.clone().join(&"one".into()), pass.clone().join(&"other".into()));
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
        let pass = Arc::new(DryRunPass::new(Arc::default(), None));
        let (one, other) = (pass.clone().join(&"one".into()), pass.clone().join(&"other".into()));
        assert!(one.admits(&key("a")) && other.admits(&key("a")));
        one.give_up();
        one.started();
        assert!(!one.admits(&key("b")));
        other.give_up();
        other.started();
        assert!(is_over(&pass));
        one.returned(&key("a"));
        assert!(is_over(&pass));
    }

    #[test]
    fn only_the_named_objects_are_handled() {
        let only = BTreeMap::from([("one".to_owned(), BTreeSet::from([key("a"), key("b")]))]);
        let pass = Arc::new(DryRunPass::new(Arc::default(), Some(only)));
        let (one, other) = (pass.clone().join(&"one".into()), pass.clone().join(&"other".into()));
        assert!(one.admits(&key("a")) && !one.admits(&key("c")) && !other.admits(&key("a")));
        one.started();
        other.started();
        assert_eq!(pass.results().unseen, [("one".into(), key("b"))]);
    }
}
