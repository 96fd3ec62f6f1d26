//! The controllers that run on a cluster, and why they do not what a test waits for.

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
pub(super) struct Controllers(Mutex<Vec<Registered>>);

impl Controllers {
    /// Adds those of a process.
    pub(super) fn add(&self, health: &Health) {
        let mut all = self.0.lock();
        all.retain(|known| known.view.strong_count() > 0);
        all.extend(health.controllers());
    }

    /// Returns a line for each controller and watch that is not ready, for each controller that does not lead, and for
    /// each object whose last call failed or has not ended.
    pub(super) fn problems(&self) -> Vec<String> {
        let all = self.0.lock().clone();
        let views: Vec<_> = all.iter().filter_map(|known| known.view.upgrade()).collect();
        views.iter().flat_map(|view| problems(view)).collect()
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
