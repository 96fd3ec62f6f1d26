//! Reads the state of a controller for the page.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::Duration;

use kooper_access::internal::Failing;
use kooper_runtime::internal::call::worker::Running;
use kooper_runtime::internal::controller::view::{ControllerView, Registered, WatchView};
use kooper_runtime::internal::metrics::health::Probe;
use kooper_runtime::internal::queue::KeyView;
use kooper_runtime::{Health, ObjectKey, Shard};

use super::keys;
use super::model::{ControllerState, KeyState, Query, Role, Rows, shown};
use super::slots::Slots;
use super::waiting::described;
use super::webhooks;
use crate::http::history::History;

/// The state of an object for which no function is called.
const IGNORED: &str = "it is being deleted: the handler is not called for it, as there is neither `cleanup` nor \
                       `while_deleting`";

/// The state of every controller, with at most so many rows in all.
pub(in crate::http) fn states(health: &Health, history: &History, query: &Query) -> Vec<ControllerState> {
    let all = health.controllers();
    shared(&all, query, |Registered { name, resource, view }, query| match Weak::upgrade(view) {
        Some(view) => ControllerState { samples: history.of(name), ..state(&view, query) },
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

/// The state of a controller now. The search filters calls and keys, not watches.
fn state(view: &ControllerView, query: &Query) -> ControllerState {
    let (role, problem) = (role(view), problem(view));
    let failing = view.extensions().get::<Failing>();
    let mut running = view.calls();
    let all_busy = all_busy(view, &running);
    running.retain(|call| call.key.as_str().contains(&query.search));
    let ages: HashMap<ObjectKey, Duration> = running.iter().map(|call| (call.key.clone(), call.age)).collect();
    // At least half of the rows are for the keys.
    let calls = Rows::first(running, query.most / 4);
    let watches = watches(view, query.most / 4);
    let most = query.most - calls.shown.len() - watches.shown.len();

    let mut first: Vec<ObjectKey> = calls.shown.iter().map(|call| call.key.clone()).collect();
    let asked = key(&query.search);
    let Rows { shown: views, more } = if query.search.is_empty() {
        first.extend(failing.some_keys(most));
        first.truncate(most);
        keys::next(view.queue(), &first, most)
    } else {
        first.splice(..0, asked.clone());
        keys::found(view.queue(), &first, &query.search, most)
    };
    let why = |one: &KeyView| match (ages.get(&one.key), &problem) {
        (Some(age), _) if one.waiting.run.is_some() => {
            format!("{}; so far for {}", described(&one.waiting), shown(*age))
        }
        (_, Some(problem)) if one.waiting.queued.is_some() => {
            format!("it waits until the controller starts: {problem}")
        }
        (_, None) if one.waiting.queued.is_some() => match (&role, &all_busy) {
            (Role::Standby(why), _) => format!("it waits until this replica leads: {why}"),
            (_, Some(calls)) => format!("{}: {calls}", described(&one.waiting)),
            _ => described(&one.waiting),
        },
        _ if one.waiting.run.is_none() => ignored(view, &one.key).unwrap_or_else(|| described(&one.waiting)),
        _ => described(&one.waiting),
    };
    let only = match &views[..] {
        [one] => Some(&one.key),
        _ => asked.as_ref(),
    };
    let slots = only.filter(|_| !query.search.is_empty()).and_then(|key| Slots::of(view, key));
    let rows = views.iter().map(|one| KeyState {
        key: one.key.to_string(),
        why: why(one),
        reasons: one.reasons.to_string(),
        error: failing.last_error(&one.key),
    });
    let keys: Vec<KeyState> = rows.collect();
    let unknown = asked.filter(|_| keys.is_empty()).and_then(|key| unknown(view, &key, &role, problem.as_deref()));
    let (webhooks, webhook_remarks) = webhooks::of(view, matches!(role, Role::Standby(_)));
    ControllerState {
        name: view.name().to_owned(),
        resource: view.kind().resource(),
        unknown,
        role,
        problem,
        workers: view.workers(),
        queue: view.queue().counts(),
        watches,
        calls,
        keys: Rows { shown: keys, more },
        slots,
        webhooks: Rows { shown: webhooks, more: 0 },
        webhook_remarks,
        samples: Vec::new(),
    }
}

fn role(view: &ControllerView) -> Role {
    if let Some(shards) = view.shards() {
        let identity = view.candidate().map_or_else(String::new, |(identity, _)| identity.to_owned());
        let shared = |first: &Shard| Role::Shards { owned: shards.len(), count: first.count, identity };
        return shards.first().map_or(Role::NoShards, shared);
    }
    match view.candidate() {
        None => Role::Alone,
        Some((identity, true)) => Role::Leader(identity.to_owned()),
        Some((_, false)) => Role::Standby(match view.election().map(Probe::ready) {
            Some(Ok(Some(remark)) | Err(remark)) => without_name(view, &remark).to_owned(),
            Some(Ok(None)) => "standby".to_owned(),
            None => "leader election begins after the first lists".to_owned(),
        }),
    }
}

/// Which calls the workers are busy with, if a key has to wait for one of them: first the one that runs for the longest
/// time, which may hold up all others.
fn all_busy(view: &ControllerView, running: &[Running]) -> Option<String> {
    let longest = running.iter().max_by_key(|call| call.age).filter(|_| running.len() >= view.workers())?;
    let Running { key, age, .. } = longest;
    Some(match view.workers() {
        1 => format!("the only worker has been running {key} for {}", shown(*age)),
        all => {
            format!("all {all} workers are busy; the longest call, for {key}, has been running for {}", shown(*age))
        }
    })
}

/// Why no handler is called, if so.
fn problem(view: &ControllerView) -> Option<String> {
    view.problem().map(|problem| without_name(view, &problem).to_owned())
}

/// A remark without the name of the controller, which the page has above it.
fn without_name<'a>(view: &ControllerView, remark: &'a str) -> &'a str {
    let rest = remark.strip_prefix(view.name()).and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(remark)
}

/// The watches, those with a problem first.
fn watches(view: &ControllerView, most: usize) -> Rows<WatchView> {
    let mut all = view.watches();
    all.sort_by_key(|watch| watch.problem.is_none());
    Rows::first(all, most)
}

/// Why the queue does not know a key.
fn unknown(view: &ControllerView, key: &ObjectKey, role: &Role, problem: Option<&str>) -> Option<String> {
    if key.namespace().is_some() != view.kind().namespaced {
        return None;
    }
    if !view.is_synced(key) {
        return Some(format!("{key} waits for the first lists of its namespace"));
    }
    if !view.is_cached(key) {
        let or = match role {
            Role::Shards { .. } | Role::NoShards => ", or another replica owns its shard",
            _ => "",
        };
        return Some(format!(
            "{key} is not in the cache: it does not exist, it is not selected, or its namespace is not watched{or}"
        ));
    }
    Some(match (role, problem) {
        (Role::Standby(_), _) => format!("{key} is handled by the leader, which is another replica"),
        (_, Some(problem)) => format!("{key} waits until the controller starts: {problem}"),
        // As the object of a task is in the cache of each replica.
        (Role::NoShards, None) => format!("{key} is handled by the replica that owns its shard"),
        _ => match ignored(view, key) {
            Some(why) => format!("{key}: {why}"),
            None => format!("{key} waits for a change: nothing else is planned for it"),
        },
    })
}

/// Why no function is called for an object, if so.
fn ignored(view: &ControllerView, key: &ObjectKey) -> Option<String> {
    if view.ignores(key) {
        return Some(IGNORED.to_owned());
    }
    view.paused_by(key).map(|annotation| format!("it is paused by the annotation `{annotation}`"))
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

#[cfg(test)]
mod tests {
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
