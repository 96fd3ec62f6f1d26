//! The objects of the namespaces that match a label selector.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::informer::{ChangeSource, Sink};
use super::retriever::Scope;
use super::selection::CacheSelection;
use super::store::{Cache, Change};
use crate::object::Object;

/// The objects of a deleted namespace are dropped within this time.
const DROPPED: Duration = Duration::from_secs(60);

/// Selects the objects of the namespaces that a cache has, and receives the changes of that cache.
pub(crate) struct NamespaceSelection {
    controller: String,
    namespaces: Cache,
    state: Mutex<State>,
    /// See [`CacheSelection::changes`].
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// The namespaces, each with the number of the change with which it joined.
    joined: HashMap<String, u64>,
    /// The number of times that a namespace left.
    left: u64,
    /// When namespaces left that may have been deleted.
    deleted: HashMap<String, Instant>,
    /// When those of them that left too long ago were last forgotten.
    swept: Option<Instant>,
}

impl NamespaceSelection {
    pub(crate) fn new(controller: &str, namespaces: Cache) -> Self {
        Self { controller: controller.to_owned(), namespaces, state: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Returns `true` if a namespace may have left because it was deleted, and not because of its labels. Then so may its
    /// objects.
    pub(crate) fn may_be_deleted(&self, namespace: Option<&str>) -> bool {
        namespace.is_some_and(|namespace| self.state.lock().deleted.contains_key(namespace))
    }
}

impl Sink for NamespaceSelection {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        let Some(key) = change.key() else { return };
        let (controller, name) = (&self.controller, key.name());
        let mut state = self.state.lock();
        // The change may be an older one than the cache has.
        let matches = self.namespaces.get(key).is_some();
        if matches == state.joined.contains_key(name) {
            return;
        }
        let number = *self.changes.borrow() + u64::from(matches);
        if matches {
            state.joined.insert(name.to_owned(), number);
            state.deleted.remove(name);
        } else {
            state.joined.remove(name);
            state.left += 1;
            // Not for each one: many may be deleted together.
            if state.swept.is_none_or(|at| at.elapsed() >= DROPPED) {
                state.deleted.retain(|_, at| at.elapsed() < DROPPED);
                state.swept = Some(Instant::now());
            }
            // A list does not show why a namespace is missing.
            if seen == ChangeSource::Listed || change.last().is_some_and(|last| last.is_terminating()) {
                state.deleted.insert(name.to_owned(), Instant::now());
            }
        }
        // Before it is unlocked: an object that is selected again is known to have joined.
        self.changes.send_replace(number);
        drop(state);
        if !matches {
            tracing::info!(controller, "the objects of the namespace `{name}` are not handled any more");
        } else if seen != ChangeSource::First {
            tracing::info!(controller, "the objects of the namespace `{name}` are handled from now on");
        }
    }
}

impl CacheSelection for NamespaceSelection {
    fn selects(&self, object: &Object) -> bool {
        object.key().namespace().is_some_and(|namespace| self.state.lock().joined.contains_key(namespace))
    }

    fn is_empty(&self) -> bool {
        self.state.lock().joined.is_empty()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn left(&self) -> Option<u64> {
        Some(self.state.lock().left)
    }

    /// Only one namespace can be requested by itself.
    fn narrow(&self, scope: &Scope, since: u64) -> Scope {
        let state = self.state.lock();
        let mut joined = state.joined.iter().filter(|(_, number)| **number > since).map(|(name, _)| name);
        match (joined.next(), joined.next()) {
            (Some(only), None) => Scope { namespace: Some(only.clone()), ..scope.clone() },
            _ => scope.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::watch::store::Store;

    fn namespace(name: &str, is_terminating: bool) -> Object {
        let deleted = is_terminating.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "deletionTimestamp": deleted});
        Object::parse(json!({"metadata": metadata}).to_string().as_bytes()).unwrap()
    }

    /// A selection, and the store that it reads.
    fn selection() -> (NamespaceSelection, Arc<Store>) {
        let store = Arc::new(Store::default());
        (NamespaceSelection::new("ours", Cache::new([(None, store.clone())])), store)
    }

    fn has(selection: &NamespaceSelection, namespace: &str) -> bool {
        let object = json!({"metadata": {"name": "one", "namespace": namespace}});
        selection.selects(&Object::parse(object.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn a_change_that_arrives_late_does_not_bring_back_a_namespace() {
        let (selection, store) = selection();
        let first = store.put(namespace("a", false));
        selection.changed(&first, ChangeSource::First);
        assert!(has(&selection, "a") && !has(&selection, "b"));
        selection.changed(&store.remove(namespace("a", false)), ChangeSource::Watched);
        assert_eq!((has(&selection, "a"), CacheSelection::left(&selection)), (false, Some(1)));
        selection.changed(&first, ChangeSource::First);
        assert_eq!((has(&selection, "a"), CacheSelection::left(&selection)), (false, Some(1)));
    }

    #[test]
    fn one_namespace_is_requested_by_itself_and_several_with_all_others() {
        let (selection, store) = selection();
        let narrowed = |since| selection.narrow(&Scope::default(), since).namespace;
        assert!(selection.is_empty() && narrowed(0).is_none());
        selection.changed(&store.put(namespace("a", false)), ChangeSource::First);
        assert_eq!(narrowed(0).as_deref(), Some("a"));
        let since = *selection.changes().borrow();
        selection.changed(&store.put(namespace("b", false)), ChangeSource::Watched);
        assert_eq!((narrowed(0), narrowed(since).as_deref()), (None, Some("b")));
        selection.changed(&store.remove(namespace("a", false)), ChangeSource::Watched);
        assert_eq!(narrowed(0).as_deref(), Some("b"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_may_be_deleted_if_it_was_terminating_or_is_not_listed_until_another_one_has_its_name() {
        let (selection, store) = selection();
        for name in ["a", "b", "c"] {
            selection.changed(&store.put(namespace(name, false)), ChangeSource::First);
        }
        selection.changed(&store.remove(namespace("c", false)), ChangeSource::Listed);
        assert!(selection.may_be_deleted(Some("c")));
        selection.changed(&store.remove(namespace("a", true)), ChangeSource::Watched);
        selection.changed(&store.remove(namespace("b", false)), ChangeSource::Watched);
        assert!(selection.may_be_deleted(Some("a")) && !selection.may_be_deleted(Some("b")));
        selection.changed(&store.put(namespace("a", false)), ChangeSource::Watched);
        assert!(!selection.may_be_deleted(Some("a")));
        selection.changed(&store.remove(namespace("a", true)), ChangeSource::Watched);

        tokio::time::advance(DROPPED).await;
        selection.changed(&store.put(namespace("b", false)), ChangeSource::Watched);
        selection.changed(&store.remove(namespace("b", false)), ChangeSource::Watched);
        assert!(!selection.may_be_deleted(Some("a")), "it is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_namespaces_are_forgotten_once_in_a_while_and_not_looked_at_for_each_one() {
        let (selection, store) = selection();
        let mut known = Vec::new();
        for (name, part) in [("a", 0), ("b", 4), ("c", 2), ("d", 5), ("e", 1)] {
            tokio::time::advance(DROPPED * part / 6).await;
            selection.changed(&store.put(namespace(name, true)), ChangeSource::Watched);
            selection.changed(&store.remove(namespace(name, true)), ChangeSource::Watched);
            known.push(selection.state.lock().deleted.len());
        }
        assert_eq!(known, [1, 2, 2, 3, 2]);
    }
}
