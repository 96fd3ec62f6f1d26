//! The state of a controller, for people.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::Starting;
use super::namespaces::Namespaces;
use crate::call::context::ControllerContext;
use crate::call::observer::Failing;
use crate::call::worker::{Busy, Running};
use crate::leader::Leadership;
use crate::metrics::health::Probe;
use crate::metrics::status::{CallState, ControllerState, Inspect, KeyState, Query, Role, Rows, WatchState, shown};
use crate::object::key::ObjectKey;
use crate::queue::{KeyView, KeyViews};
use crate::watch::informer::Watched;

/// The state of an object for which no function is called.
const IGNORED: &str = "it is being deleted: the handler is not called for it, as there is neither `cleanup` nor \
                       `while_deleting`";

/// The parts of a running controller that the page describes.
pub(super) struct ControllerStatus {
    pub(super) controller: Arc<ControllerContext>,
    pub(super) namespaces: Arc<Namespaces>,
    pub(super) leadership: Leadership,
    /// The identity in the Lease; `None` without leader election.
    pub(super) identity: Option<String>,
    /// The state of the election, once it has begun.
    pub(super) election: OnceLock<Arc<dyn Probe>>,
    pub(super) workers: usize,
    /// `true` if no function is called for an object that is being deleted.
    pub(super) ignores_deletion: bool,
    pub(super) watches: Vec<Arc<Watched>>,
    pub(super) busy: Arc<Busy>,
    pub(super) failing: Arc<Failing>,
    pub(super) starting: Arc<Starting>,
}

impl Inspect for ControllerStatus {
    fn inspect(&self, query: &Query) -> ControllerState {
        let (role, problem) = (self.role(), self.problem());
        let mut running = self.busy.running();
        let all_busy = self.all_busy(&running);
        running.retain(|call| call.key.as_str().contains(&query.search));
        let ages: HashMap<ObjectKey, Duration> = running.iter().map(|call| (call.key.clone(), call.age)).collect();
        // At least half of the rows are for the keys.
        let calls = Rows::first(running, query.most / 4);
        let watches = self.watches(query.most / 4);
        let most = query.most - calls.shown.len() - watches.shown.len();

        let mut first: Vec<ObjectKey> = calls.shown.iter().map(|call| call.key.clone()).collect();
        let asked = key(&query.search);
        let KeyViews { shown: views, more } = if query.search.is_empty() {
            first.extend(self.failing.some_keys(most));
            first.truncate(most);
            self.controller.queue.describe(&first, most)
        } else {
            first.splice(..0, asked.clone());
            self.controller.queue.search(&first, &query.search, most)
        };
        let why = |view: &KeyView| match (ages.get(&view.key), &problem) {
            (Some(age), _) if view.waiting.run.is_some() => format!("{}; so far for {}", view.waiting, shown(*age)),
            (_, Some(problem)) if view.waiting.is_queued() => {
                format!("it waits until the controller starts: {problem}")
            }
            (_, None) if view.waiting.is_queued() => match (&role, &all_busy) {
                (Role::Standby(why), _) => format!("it waits until this replica leads: {why}"),
                (_, Some(calls)) => format!("{}: {calls}", view.waiting),
                _ => view.waiting.to_string(),
            },
            _ if view.waiting.run.is_none() && self.ignores(&view.key) => IGNORED.to_owned(),
            _ => view.waiting.to_string(),
        };
        let described = views.iter().map(|view| KeyState {
            key: view.key.to_string(),
            why: why(view),
            reasons: view.reasons.to_string(),
            error: self.failing.last_error(&view.key),
        });
        let keys: Vec<KeyState> = described.collect();
        let unknown = asked.filter(|_| keys.is_empty()).and_then(|key| self.unknown(&key, &role, problem.as_deref()));
        ControllerState {
            name: self.controller.controller.to_string(),
            resource: self.controller.kind.resource(),
            unknown,
            role,
            problem,
            workers: self.workers,
            queue: self.controller.queue.counts(),
            watches,
            calls: calls.map(|Running { key, attempt, age }| CallState { key: key.to_string(), attempt, age }),
            keys: Rows { shown: keys, more },
        }
    }
}

impl ControllerStatus {
    pub(super) fn weak(self: &Arc<Self>) -> Weak<dyn Inspect> {
        let view: Arc<dyn Inspect> = self.clone();
        Arc::downgrade(&view)
    }

    fn role(&self) -> Role {
        match &self.identity {
            None => Role::Alone,
            Some(identity) if self.leadership.is_held() => Role::Leader(identity.clone()),
            Some(_) => Role::Standby(match self.election.get().map(|election| election.ready()) {
                Some(Ok(Some(remark)) | Err(remark)) => self.without_name(&remark).to_owned(),
                Some(Ok(None)) => "standby".to_owned(),
                None => "leader election begins after the first lists".to_owned(),
            }),
        }
    }

    /// Which calls the workers are busy with, if a key has to wait for one of them: first
    /// the one that runs for the longest time, which may hold up all others.
    fn all_busy(&self, running: &[Running]) -> Option<String> {
        let longest = running.iter().max_by_key(|call| call.age).filter(|_| running.len() >= self.workers)?;
        let Running { key, age, .. } = longest;
        Some(match self.workers {
            1 => format!("the only worker has been running {key} for {}", shown(*age)),
            all => {
                format!("all {all} workers are busy; the longest call, for {key}, has been running for {}", shown(*age))
            }
        })
    }

    /// Why no handler is called, if so.
    fn problem(&self) -> Option<String> {
        let starting = self.starting.ready().err().map(|problem| self.without_name(&problem).to_owned());
        starting.or_else(|| self.namespaces.unlisted())
    }

    /// A remark without the name of the controller, which the page has above it.
    fn without_name<'a>(&self, remark: &'a str) -> &'a str {
        let rest = remark.strip_prefix(&*self.controller.controller).and_then(|rest| rest.strip_prefix(": "));
        rest.unwrap_or(remark)
    }

    /// The watches, those with a problem first.
    fn watches(&self, most: usize) -> Rows<WatchState> {
        let state = |watched: &Arc<Watched>| WatchState {
            place: watched.status.place(),
            objects: watched.store.size().0,
            heard: watched.status.age(),
            problem: watched.status.problem(),
        };
        let mut all: Vec<_> = self.watches.iter().map(state).collect();
        all.sort_by_key(|watch| watch.problem.is_none());
        Rows::first(all, most)
    }

    /// Returns `true` if no function is called for an object, because it is being deleted.
    fn ignores(&self, key: &ObjectKey) -> bool {
        self.ignores_deletion && self.controller.own.get(key).is_some_and(|object| object.is_terminating())
    }

    /// Why the queue does not know a key.
    fn unknown(&self, key: &ObjectKey, role: &Role, problem: Option<&str>) -> Option<String> {
        if key.namespace().is_some() != self.controller.kind.namespaced {
            return None;
        }
        if !self.namespaces.is_synced(key.namespace()) {
            return Some(format!("{key} waits for the first lists of its namespace"));
        }
        if self.controller.own.get(key).is_none() {
            return Some(format!(
                "{key} is not in the cache: it does not exist, it is not selected, or its namespace is not watched"
            ));
        }
        Some(match (role, problem) {
            (Role::Standby(_), _) => format!("{key} is handled by the leader, which is another replica"),
            (_, Some(problem)) => format!("{key} waits until the controller starts: {problem}"),
            _ if self.ignores(key) => format!("{key}: {IGNORED}"),
            _ => format!("{key} waits for a change: nothing else is planned for it"),
        })
    }
}

/// The key that a search is, if it may be a whole one.
fn key(search: &str) -> Option<ObjectKey> {
    match search.split_once('/') {
        None if search.is_empty() => None,
        None => Some(ObjectKey::cluster_scoped(search)),
        Some((namespace, name)) if namespace.is_empty() || name.is_empty() || name.contains('/') => None,
        Some((namespace, name)) => Some(ObjectKey::namespaced(namespace, name)),
    }
}
