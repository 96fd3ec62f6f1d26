//! The content of the status page.

use std::sync::Weak;
use std::time::Duration;

use kooper_runtime::Health;
use kooper_runtime::internal::call::worker::Running;
use kooper_runtime::internal::controller::view::{Registered, WatchView};
use kooper_runtime::internal::queue::QueueCounts;

use super::read;

/// A filter for the keys that are shown, and the maximum number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// A part of the keys; empty for all of them.
    pub(crate) search: String,
    /// The maximum number of rows.
    pub(crate) most: usize,
}

/// The state of a controller at one moment.
#[derive(Debug, Default)]
pub(crate) struct ControllerState {
    pub(crate) name: String,
    /// The resource that it handles.
    pub(crate) resource: String,
    pub(crate) role: Role,
    /// Why it handles nothing, if so.
    pub(crate) problem: Option<String>,
    /// The maximum number of calls that run at the same time.
    pub(crate) workers: usize,
    pub(crate) queue: QueueCounts,
    /// Its watches, those with a problem first.
    pub(crate) watches: Rows<WatchView>,
    /// The running calls, the longest one first.
    pub(crate) calls: Rows<Running>,
    /// The keys of its queue; without a search those that run or fail come first.
    pub(crate) keys: Rows<KeyState>,
    /// Why no key matches the search, if it is a whole key.
    pub(crate) unknown: Option<String>,
}

/// Some rows, and the number of those that are left out.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    pub(crate) shown: Vec<T>,
    pub(crate) more: usize,
}

/// The role of a controller in leader election. A standby calls no handlers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has no leader election.
    #[default]
    Alone,
    /// It is the leader, under this identity.
    Leader(String),
    /// It is not the leader, and why.
    Standby(String),
    /// It has ended.
    Ended,
}

/// A key, and what it waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyState {
    /// The key: `namespace/name`, or `name` for a cluster-scoped object.
    pub(crate) key: String,
    /// A sentence about the call that runs, or the event or time that the key waits for.
    pub(crate) why: String,
    /// The reasons of its next call.
    pub(crate) reasons: String,
    /// The last error, and how many calls have failed since the last success.
    pub(crate) error: Option<(String, u32)>,
}

/// The state of every controller, with at most so many rows in all.
pub(crate) fn states(health: &Health, query: &Query) -> Vec<ControllerState> {
    let all = health.controllers();
    shared(&all, query, |Registered { name, resource, view }, query| match Weak::upgrade(view) {
        Some(view) => read::state(&view, query),
        None => ControllerState {
            name: name.to_string(),
            resource: resource.clone(),
            role: Role::Ended,
            ..ControllerState::default()
        },
    })
}

/// The states of all controllers. Each gets an equal share of the rows, and what the ones before it leave.
fn shared<T>(all: &[T], query: &Query, state: impl Fn(&T, &Query) -> ControllerState) -> Vec<ControllerState> {
    let (mut left, mut states) = (query.most, Vec::new());
    for (index, one) in all.iter().enumerate() {
        let most = left / (all.len() - index);
        let state = state(one, &Query { search: query.search.clone(), most });
        left = left.saturating_sub(state.rows());
        states.push(state);
    }
    states
}

/// A duration for people: in tenths of a second below ten seconds, else in seconds.
pub(crate) fn shown(time: Duration) -> String {
    match time {
        short if short < Duration::from_secs(10) => format!("{:.1}s", short.as_secs_f64()),
        long => kooper_grammar::duration::format(Duration::from_secs(long.as_secs())),
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { shown: Vec::new(), more: 0 }
    }
}

impl<T> Rows<T> {
    /// The first rows.
    pub(crate) fn first(mut all: Vec<T>, most: usize) -> Self {
        let more = all.len().saturating_sub(most);
        all.truncate(most);
        Self { shown: all, more }
    }
}

impl ControllerState {
    fn rows(&self) -> usize {
        self.watches.shown.len() + self.calls.shown.len() + self.keys.shown.len()
    }
}

#[cfg(test)]
mod tests {
    use kooper_runtime::ObjectKey;

    use super::*;

    #[test]
    fn the_rows_are_shared_by_all_controllers_and_the_others_are_counted() {
        let state = |calls: &usize, query: &Query| {
            let key = |n| ObjectKey::cluster_scoped(&format!("{n}"));
            let call = |n| Running { key: key(n), attempt: 1, age: Duration::ZERO };
            let calls = Rows::first((0..*calls).map(call).collect(), query.most);
            ControllerState { calls, ..ControllerState::default() }
        };
        let query = |most| Query { search: String::new(), most };
        let all = [100, 2, 5_000, 700];
        let states = shared(&all, &query(1_000), state);
        let rows: Vec<_> = states.iter().map(|state| (state.calls.shown.len(), state.calls.more)).collect();
        assert_eq!(rows, [(100, 0), (2, 0), (449, 4_551), (449, 251)]);
        let none = shared(&all, &query(0), state);
        assert!(none.iter().all(|state| state.calls.shown.is_empty() && state.calls.more > 0));
    }
}
