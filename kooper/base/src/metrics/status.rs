//! The state of the controllers, for people.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A filter for the keys that are shown, and the maximum number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// A part of the keys; empty for all of them.
    pub search: String,
    /// The maximum number of rows.
    pub most: usize,
}

/// A controller whose state can be shown.
pub trait Inspect: Send + Sync {
    /// The state now, with at most `query.most` rows in all. The search filters calls and keys, not
    /// watches.
    fn inspect(&self, query: &Query) -> ControllerState;
}

/// The controllers of the process. Clones share the list, which keeps no controller
/// alive.
#[derive(Debug, Clone, Default)]
pub struct Inspected {
    controllers: Arc<Mutex<Vec<Known>>>,
}

/// A controller, as long as it exists.
#[derive(Debug, Clone)]
struct Known {
    name: String,
    resource: String,
    controller: Weak<dyn Inspect>,
}

/// The state of a controller at one moment.
#[derive(Debug, Default)]
pub struct ControllerState {
    /// The name of the controller.
    pub name: String,
    /// The resource that it handles.
    pub resource: String,
    /// Its role in leader election.
    pub role: Role,
    /// Why it handles nothing, if so.
    pub problem: Option<String>,
    /// The maximum number of calls that run at the same time.
    pub workers: usize,
    /// The number of keys in its queue, by state.
    pub queue: QueueCounts,
    /// Its watches, those with a problem first.
    pub watches: Rows<WatchState>,
    /// The running calls, the longest one first.
    pub calls: Rows<CallState>,
    /// The keys of its queue; without a search those that run or fail come first.
    pub keys: Rows<KeyState>,
    /// Why no key matches the search, if it is a whole key.
    pub unknown: Option<String>,
}

/// Some rows, and the number of those that are left out.
#[derive(Debug)]
pub struct Rows<T> {
    /// The rows that are not left out.
    pub shown: Vec<T>,
    /// The number of rows that are left out.
    pub more: usize,
}

/// The role of a controller in leader election. A standby calls no handlers.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Role {
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

/// A watch of a controller.
#[derive(Debug)]
pub struct WatchState {
    /// The resource, and the namespace if it is a single one.
    pub place: String,
    /// The number of objects in its store.
    pub objects: usize,
    /// The time since the last event or bookmark.
    pub heard: Duration,
    /// Why it is not up to date, if so.
    pub problem: Option<String>,
}

/// A call that runs.
#[derive(Debug)]
pub struct CallState {
    /// The key of the object that is handled.
    pub key: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The time since the call started.
    pub age: Duration,
}

/// The number of keys in a queue, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// The keys that wait for a worker: events, retries, and background.
    pub lanes: [usize; 3],
    /// The keys that wait for a requeue.
    pub delayed: usize,
    /// The failed keys that wait for their retry.
    pub retries: usize,
    /// All keys that the queue keeps state of, also those that run or have failed.
    pub known: usize,
}

/// A key, and what it waits for.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The key: `namespace/name`, or `name` for a cluster-scoped object.
    pub key: String,
    /// A sentence about the call that runs, or the event or time that the key waits for.
    pub why: String,
    /// The reasons of its next call.
    pub reasons: String,
    /// The last error, and how many calls have failed since the last success.
    pub error: Option<(String, u32)>,
}

/// A duration for people: in tenths of a second below ten seconds, else in seconds.
#[must_use]
pub fn shown(time: Duration) -> String {
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
    #[must_use]
    pub fn first(mut all: Vec<T>, most: usize) -> Self {
        let more = all.len().saturating_sub(most);
        all.truncate(most);
        Self { shown: all, more }
    }

    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Rows<U> {
        Rows { shown: self.shown.into_iter().map(change).collect(), more: self.more }
    }
}

impl ControllerState {
    fn rows(&self) -> usize {
        self.watches.shown.len() + self.calls.shown.len() + self.keys.shown.len()
    }
}

impl Known {
    fn inspect(&self, query: &Query) -> ControllerState {
        match self.controller.upgrade() {
            Some(controller) => controller.inspect(query),
            None => ControllerState {
                name: self.name.clone(),
                resource: self.resource.clone(),
                role: Role::Ended,
                ..ControllerState::default()
            },
        }
    }
}

impl Inspected {
    /// Adds a controller. It replaces one of the same name that has ended.
    pub fn add(&self, name: &str, resource: String, controller: Weak<dyn Inspect>) {
        let mut all = self.controllers.lock();
        all.retain(|known| known.name != name || known.controller.strong_count() > 0);
        all.push(Known { name: name.to_owned(), resource, controller });
    }

    /// The state of every controller, with at most so many rows in all. Each gets an
    /// equal share, and what the ones before it leave.
    #[must_use]
    pub fn inspect(&self, query: &Query) -> Vec<ControllerState> {
        let all = self.controllers.lock().clone();
        let (mut left, mut states) = (query.most, Vec::new());
        for (index, known) in all.iter().enumerate() {
            let most = left / (all.len() - index);
            let state = known.inspect(&Query { search: query.search.clone(), most });
            left = left.saturating_sub(state.rows());
            states.push(state);
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller with so many calls.
    struct Calls(usize);

    impl Inspect for Calls {
        fn inspect(&self, query: &Query) -> ControllerState {
            let call = |n| CallState { key: format!("{n}"), attempt: 1, age: Duration::ZERO };
            let calls = Rows::first((0..self.0).map(call).collect(), query.most);
            ControllerState { calls, ..ControllerState::default() }
        }
    }

    #[test]
    fn the_rows_are_shared_by_all_controllers_and_the_others_are_counted() {
        let inspected = Inspected::default();
        let kept = [100, 2, 5_000, 700].map(|calls| Arc::new(Calls(calls)));
        for controller in &kept {
            let controller: Weak<dyn Inspect> = Arc::downgrade(&(controller.clone() as Arc<dyn Inspect>));
            inspected.add("shop", "pods".to_owned(), controller);
        }
        let states = inspected.inspect(&Query { search: String::new(), most: 1_000 });
        let rows: Vec<_> = states.iter().map(|state| (state.calls.shown.len(), state.calls.more)).collect();
        assert_eq!(rows, [(100, 0), (2, 0), (449, 4_551), (449, 251)]);
        let none = inspected.inspect(&Query { search: String::new(), most: 0 });
        assert!(none.iter().all(|state| state.calls.shown.is_empty() && state.calls.more > 0));
    }

    #[test]
    fn a_controller_that_has_ended_is_shown_until_another_one_has_its_name() {
        let inspected = Inspected::default();
        let query = Query { search: String::new(), most: 10 };
        assert!(inspected.inspect(&query).is_empty());
        let add = |name: &str| {
            let controller: Arc<dyn Inspect> = Arc::new(Calls(1));
            inspected.add(name, "pods".to_owned(), Arc::downgrade(&controller));
            controller
        };
        let (shop, _till) = (add("shop"), add("till"));
        assert!(inspected.inspect(&query).iter().all(|state| state.role == Role::Alone));
        drop(shop);
        let roles = || inspected.inspect(&query).into_iter().map(|state| state.role).collect::<Vec<_>>();
        assert_eq!(roles(), [Role::Ended, Role::Alone]);
        let _shop = add("shop");
        assert_eq!(roles(), [Role::Alone, Role::Alone]);
    }
}
