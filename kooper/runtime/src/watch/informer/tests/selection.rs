//! A store that keeps only some of the objects that its source sends.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::watch;

use super::*;

/// Selects objects by their uids.
#[derive(Default)]
pub(super) struct Uids {
    selected: Mutex<BTreeSet<String>>,
    changes: watch::Sender<u64>,
    left: AtomicU64,
    pub(super) asked: AtomicU32,
    /// The number of objects that were sent, but are not selected.
    dropped: AtomicU32,
    /// The last change whose objects the cache has, or may not list.
    listed: AtomicU64,
    /// The last change that is not waited for.
    tried: AtomicU64,
}

impl Uids {
    pub(super) fn of(uids: &[&str]) -> Arc<Self> {
        let selection = Arc::new(Self::default());
        selection.select(uids);
        selection
    }

    pub(super) fn select(&self, uids: &[&str]) {
        let uids = uids.iter().map(|&uid| uid.to_owned()).collect();
        let mut selected = self.selected.lock();
        self.left.fetch_add(u64::from(!selected.is_subset(&uids)), Ordering::SeqCst);
        *selected = uids;
        drop(selected);
        self.changes.send_modify(|joined| *joined += 1);
    }

    /// Nothing joins.
    pub(super) fn lose(&self, uids: &[&str]) {
        self.selected.lock().retain(|selected| !uids.contains(&selected.as_str()));
        self.left.fetch_add(1, Ordering::SeqCst);
        self.changes.send_modify(|_| {});
    }
}

impl CacheSelection for Uids {
    fn left(&self) -> Option<u64> {
        Some(self.left.load(Ordering::SeqCst))
    }

    fn selects(&self, object: &Object) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.selected.lock().contains(object.uid())
    }

    fn is_empty(&self) -> bool {
        self.selected.lock().is_empty()
    }

    fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }

    fn listed(&self, joined: u64) {
        self.listed.store(joined, Ordering::SeqCst);
        self.tried(joined);
    }

    fn tried(&self, joined: u64) {
        self.tried.store(joined, Ordering::SeqCst);
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// Selects objects by a function, which may change the selection.
struct ByFunction<F>(F, watch::Sender<u64>);

impl<F: Fn(&Object, &watch::Sender<u64>) -> bool + Send + Sync> CacheSelection for ByFunction<F> {
    fn selects(&self, object: &Object) -> bool {
        (self.0)(object, &self.1)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.1.subscribe()
    }
}

#[tokio::test(start_paused = true)]
async fn only_selected_objects_are_kept_of_a_list_and_of_a_watch() {
    let script = Script::default().list(page("3", &[("a", "1"), ("b", "2")])).open_watch(vec![
        modified("b", "4"),
        added("c", "5"),
        added("d", "6"),
        deleted("b", "7"),
        modified("a", "8"),
    ]);
    let run = script.run_selecting(false, Uids::of(&["a", "c"]));
    run.until_seen(&[("a", "8"), ("c", "5")]).await;
    assert_eq!(*run.seen.log.lock(), ["initial a", "added c", "modified a"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_listed_before_something_is_selected() {
    let script = Script::default().open_watch(vec![added("b", "2")]).list(page("3", &[("a", "1"), ("b", "2")]));
    *script.current.lock() = Some("1");
    let selection = Uids::of(&[]);
    let run = script.open_watch(vec![]).run_selecting(false, selection.clone());
    run.until("the watch", |_| !run.script.watched.lock().is_empty()).await;
    assert_eq!((*run.script.listed.lock(), run.script.watched.lock()[0].as_str()), (0, "1"));
    selection.select(&["a"]);
    run.until_seen(&[("a", "1")]).await;
    assert_eq!(*run.seen.log.lock(), ["added a"]);
}

#[tokio::test(start_paused = true)]
async fn only_selected_objects_are_kept_of_a_streaming_list() {
    let script = Script::default().open_watch(vec![added("a", "1"), added("b", "2"), bookmark("3", true)]);
    let run = script.run_selecting(true, Uids::of(&["b"]));
    run.until_seen(&[("b", "2")]).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_leave_the_selection_are_not_deleted_and_those_that_join_are_added() {
    let script = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2"), ("c", "3")]))
        .open_watch(vec![])
        .list(page("4", &[("a", "1"), ("b", "2"), ("c", "4")]))
        .open_watch(vec![])
        .list(page("6", &[("a", "1"), ("c", "4")]))
        .open_watch(vec![]);
    let selection = Uids::of(&["a", "b"]);
    let run = script.run_selecting(false, selection.clone());
    run.until_seen(&[("a", "1"), ("b", "2")]).await;
    selection.select(&["b", "c"]);
    run.until_seen(&[("b", "2"), ("c", "4")]).await;
    // It was deleted before it could leave.
    selection.select(&["a", "b"]);
    run.until_seen(&[("a", "1")]).await;
    // The objects of one list are compared in no particular order.
    let mut log = run.seen.log.lock().clone();
    log[..2].sort_unstable();
    log[5..].sort_unstable();
    assert_eq!(log, ["initial a", "initial b", "left a", "added c", "left c", "added a", "deleted b"]);
}

#[tokio::test(start_paused = true)]
async fn other_tasks_run_while_a_cache_is_searched_for_objects_that_have_left() {
    let retriever = scripted(&Arc::new(Script::default()), false);
    let status = Arc::new(WatchStatus::new("test", "pods", None, false, true));
    let informer = Informer::new(retriever, Arc::default(), status, Arc::new(RecordingSink::default()));
    let mut informer = informer.selecting(Some(Uids::of(&["a"])));
    informer.store.put(object("a", "1"));
    assert!(informer.drop_unselected().now_or_never().is_none(), "none has left");
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_name_another_object_takes_was_deleted_although_that_one_is_not_selected() {
    let other = Object::parse(br#"{"metadata":{"name":"a","uid":"other","resourceVersion":"5"}}"#).unwrap();
    let script =
        Script::default().list(page("3", &[("a", "1")])).open_watch(vec![Ok(Event::Added(other)), added("b", "6")]);
    let run = script.run_selecting(false, Uids::of(&["a", "b"]));
    run.until_seen(&[("b", "6")]).await;
    assert_eq!(*run.seen.log.lock(), ["initial a", "deleted a", "added b"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_has_changed_so_that_it_is_not_selected_counts_as_deleted() {
    let script =
        Script::default().list(page("3", &[("a", "1")])).open_watch(vec![modified("a", "4"), modified("b", "5")]);
    let selects = |object: &Object, _: &watch::Sender<u64>| object.version() != "4";
    let run = script.run_selecting(false, Arc::new(ByFunction(selects, watch::Sender::new(0))));
    run.until_seen(&[("b", "5")]).await;
    assert_eq!(*run.seen.log.lock(), ["initial a", "deleted a", "added b"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_and_joins_again_during_a_list_is_not_deleted() {
    let listed = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2")]))
        .watch(vec![Err(expired())])
        .list(page("6", &[("a", "1"), ("b", "5")]))
        .list(page("6", &[("a", "1"), ("b", "5")]))
        .open_watch(vec![]);
    let streamed = Script::default()
        .watch(vec![added("a", "1"), added("b", "2"), bookmark("3", true), Err(expired())])
        .open_watch(vec![added("a", "1"), added("b", "5"), bookmark("6", true)])
        .open_watch(vec![added("a", "1"), added("b", "5"), bookmark("6", true)]);
    // While `b` is read, it leaves the selection and joins it again, once.
    let selects = |object: &Object, changes: &watch::Sender<u64>| {
        let leaves = object.version() == "5" && *changes.borrow() == 0;
        if leaves {
            changes.send_replace(1);
        }
        !leaves
    };
    for (script, streaming) in [(listed, false), (streamed, true)] {
        let run = script.run_selecting(streaming, Arc::new(ByFunction(selects, watch::Sender::new(0))));
        run.until_seen(&[("a", "1"), ("b", "5")]).await;
        let mut log = run.seen.log.lock().clone();
        log[..2].sort_unstable();
        assert_eq!(log, ["initial a", "initial b", "modified b"], "streaming: {streaming}");
    }
}

/// A source whose second list lacks `b`. Another object joins while it is compared with the store.
fn without_b(third: Listing) -> RunningInformer {
    let script = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2")]))
        .watch(vec![Err(expired())])
        .list(page("6", &[("a", "1")]))
        .open_watch(vec![])
        .list(third)
        .open_watch(vec![]);
    let asked = AtomicU32::new(0);
    let selects = move |object: &Object, changes: &watch::Sender<u64>| {
        if object.uid() == "b" && asked.fetch_add(1, Ordering::SeqCst) == 1 {
            changes.send_replace(1);
        }
        true
    };
    script.run_selecting(false, Arc::new(ByFunction(selects, watch::Sender::new(0))))
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_not_lost_if_another_object_joins_while_the_list_is_compared() {
    let run = without_b(page("7", &[("a", "1")]));
    run.until_seen(&[("a", "1")]).await;
    assert_eq!(run.seen.log.lock().split_off(2), ["deleted b"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_next_list_contains_was_not_deleted() {
    let run = without_b(page("8", &[("a", "1"), ("b", "7")]));
    run.until_seen(&[("a", "1"), ("b", "7")]).await;
    assert_eq!(run.seen.log.lock().split_off(2), ["added b"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_which_only_the_name_is_in_the_next_list_was_deleted() {
    let other = Object::parse(br#"{"metadata":{"name":"b","uid":"other","resourceVersion":"7"}}"#).unwrap();
    let mut third = page("8", &[("a", "1")]).unwrap();
    third.objects.push(Ok(other));
    let run = without_b(Ok(third));
    run.until_seen(&[("a", "1"), ("b", "7")]).await;
    assert_eq!(run.seen.log.lock().split_off(2), ["deleted b", "added b"]);
}

#[tokio::test(start_paused = true)]
async fn each_unselected_object_that_is_sent_counts_once_and_a_known_one_does_not() {
    let script = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2"), ("c", "3")]))
        .open_watch(vec![modified("c", "5"), modified("b", "6")])
        .watch_from("6", vec![modified("b", "7")]);
    let script = Arc::new(script);
    let retriever = Arc::new(Outdated(scripted(&script, false)));
    let uids = Uids::of(&["a", "b"]);
    let run = run_selecting(script, retriever, Some(uids.clone()));
    run.until_seen(&[("a", "1"), ("b", "6")]).await;
    uids.lose(&["a"]);
    run.until_seen(&[("b", "7")]).await;
    assert_eq!(uids.dropped.load(Ordering::SeqCst), 2, "`c` was listed, and then modified");
}

/// A retriever whose watches would send fewer objects whenever the selection has changed.
struct Outdated(Arc<dyn ErasedRetriever>);

impl ErasedRetriever for Outdated {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Listing> {
        self.0.list(request)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>> {
        self.0.watch(request)
    }

    fn is_outdated(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn when_objects_leave_a_watch_that_sends_fewer_is_resumed_without_a_list() {
    let script = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2")]))
        .open_watch(vec![modified("b", "5")])
        .watch_from("5", vec![modified("b", "6")]);
    let script = Arc::new(script);
    let retriever = Arc::new(Outdated(scripted(&script, false)));
    let selection = Uids::of(&["a", "b"]);
    let run = run_selecting(script, retriever, Some(selection.clone()));
    run.until_seen(&[("a", "1"), ("b", "5")]).await;
    selection.lose(&["a"]);
    run.until_seen(&[("b", "6")]).await;
    assert_eq!(run.seen.log.lock().split_off(3), ["left a", "modified b"]);
    assert_eq!(*run.script.listed.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_joins_while_a_kind_is_refused_is_not_waited_for_until_the_next_attempt() {
    let refused = || RetrieveError::Forbidden("pods is forbidden".to_owned());
    let never_listed = (0..20).fold(Script::default(), |script, _| script.list(Err(refused())));
    let listed = Script::default().list(page("3", &[("a", "1")]));
    let listed = (0..20).fold(listed, |script, _| script.opening(Err(refused())));
    for (script, reported) in [(never_listed, (2, 2)), (listed, (1, 2))] {
        let (uids, script) = (Uids::of(&["a"]), Arc::new(script));
        let retriever = scripted(&script, false);
        let _run = run_selecting(script, retriever, Some(uids.clone()));
        let now = || (uids.listed.load(Ordering::SeqCst), uids.tried.load(Ordering::SeqCst));
        // The pauses have become long.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(now(), (1, 1));
        uids.select(&["a", "b"]);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(now(), reported);
    }
}
