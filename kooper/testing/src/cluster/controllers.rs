//! The controllers that run on a cluster, and why they do not what a test waits for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kooper_access::internal::Failing;
use kooper_runtime::Health;
use kooper_runtime::internal::controller::view::{ControllerView, Registered};
use parking_lot::Mutex;

/// Maximum number of objects of one controller that are shown.
const SHOWN: usize = 10;

/// Calls that have run for less time are not shown.
const LONG: Duration = Duration::from_secs(1);

/// The controllers that run on a cluster. They are not kept alive.
#[derive(Debug, Default)]
pub(super) struct Controllers(Mutex<All>);

#[derive(Debug, Default, Clone)]
struct All {
    known: Vec<Registered>,
    /// The names of those that the drop of their `Running` has stopped.
    dropped: BTreeSet<Arc<str>>,
}

impl Controllers {
    /// Adds those of a process.
    pub(super) fn add(&self, health: &Health) {
        let mut all = self.0.lock();
        all.known.retain(|known| known.view.strong_count() > 0);
        all.known.extend(health.controllers());
    }

    /// Notes those of a process whose `Running` is dropped.
    pub(super) fn drop_all(&self, health: &Health) {
        self.0.lock().dropped.extend(health.controllers().into_iter().map(|known| known.name));
    }

    /// Returns a line for each controller and watch that is not ready, for each controller that does not lead, and for
    /// each object whose last call failed or has not ended; and for each controller whose `Running` was dropped.
    pub(super) fn problems(&self) -> Vec<String> {
        let All { known, dropped } = self.0.lock().clone();
        let views: Vec<_> = known.iter().filter_map(|known| known.view.upgrade()).collect();
        let is_gone = |name: &&Arc<str>| views.iter().all(|view| view.name() != &***name);
        let dropped = dropped.iter().filter(is_gone).map(|name| {
            format!(
                "{name}: it was stopped when its `Running` was dropped: keep it, as in `let _running = cluster.run(…)`"
            )
        });
        views.iter().flat_map(|view| problems(view)).chain(dropped).collect()
    }
}

fn problems(view: &ControllerView) -> Vec<String> {
    let (name, failing) = (view.name(), view.extensions().get::<Failing>());
    let watches = view.watches();
    let unlisted = watches.iter().filter_map(|watch| {
        let problem = watch.problem.as_ref()?;
        Some(format!("{name}, watch of {}: {problem}", watch.place))
    });
    let unlisted: Vec<_> = unlisted.collect();
    // Otherwise, it may be that of a watch.
    let idle = view.problem().filter(|_| unlisted.is_empty());
    let election = view.election().and_then(|election| election.ready().unwrap_or_else(Some));
    let failed = failing.some_keys(SHOWN).into_iter().filter_map(|key| {
        let (error, calls) = failing.last_error(&key)?;
        Some(format!("{name}, {key}: {error} (call {calls})"))
    });
    let running = view.calls().into_iter().filter(|call| call.age >= LONG).take(SHOWN);
    let running = running.map(|call| format!("{name}, {}: the call has not ended after {:.1?}", call.key, call.age));
    unlisted.into_iter().chain(idle).chain(election).chain(failed).chain(running).collect()
}
