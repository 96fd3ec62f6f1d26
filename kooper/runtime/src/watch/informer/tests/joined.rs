//! A selection that objects join: they are listed by themselves.

use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::selection::Uids;
use super::*;

/// A retriever that lists what has joined by itself, from another script.
struct Joining {
    whole: Arc<dyn ErasedRetriever>,
    joined: Arc<dyn ErasedRetriever>,
    requested: Mutex<Vec<(u64, String)>>,
}

impl ErasedRetriever for Joining {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Listing> {
        self.whole.list(request)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>> {
        self.whole.watch(request)
    }

    fn joined(&self, since: u64, version: &str) -> Option<Arc<dyn ErasedRetriever>> {
        self.requested.lock().push((since, version.to_owned()));
        Some(self.joined.clone())
    }
}

fn joining(whole: Script, joined: Script, selection: Arc<dyn CacheSelection>) -> (RunningInformer, Arc<Joining>) {
    let whole = Arc::new(whole);
    let retrievers = (scripted(&whole, false), scripted(&Arc::new(joined), false));
    let retriever = Arc::new(Joining { whole: retrievers.0, joined: retrievers.1, requested: Mutex::default() });
    (run_selecting(whole, retriever.clone(), Some(selection)), retriever)
}

#[tokio::test(start_paused = true)]
async fn only_what_has_joined_is_listed_as_it_was_at_the_version_from_which_the_watch_continues() {
    let whole = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2"), ("c", "3")]))
        .open_watch(vec![modified("a", "5")])
        .watch_from("5", vec![modified("c", "7"), deleted("b", "8")])
        .open_watch(vec![]);
    let mut first = page("5", &[("b", "2")]).unwrap();
    first.continue_token = Some("next".to_owned());
    let joined = Script::default().list(Ok(first));
    joined.lists.lock().push_back((Some("next"), page("5", &[("a", "5"), ("c", "3"), ("d", "4")])));
    let selection = Uids::of(&["a"]);
    let (run, retriever) = joining(whole, joined, selection.clone());
    run.until_seen(&[("a", "5")]).await;
    selection.select(&["a", "b", "c"]);
    run.until_seen(&[("a", "5"), ("c", "7")]).await;
    let log = run.seen.log.lock().clone();
    assert_eq!(log, ["initial a", "modified a", "added b", "added c", "modified c", "deleted b"]);
    assert_eq!(*retriever.requested.lock(), [(1, "5".to_owned())]);
    assert_eq!(*run.script.listed.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_joins_others_that_have_no_objects_is_listed_by_itself_too() {
    let whole = Script::default().list(page("3", &[("b", "2")])).open_watch(vec![]).open_watch(vec![]);
    let selection = Uids::of(&["none"]);
    let (run, retriever) = joining(whole, Script::default().list(page("3", &[("b", "2")])), selection.clone());
    run.status.wait_listed(false).await;
    selection.select(&["none", "b"]);
    run.until_seen(&[("b", "2")]).await;
    assert_eq!(retriever.requested.lock().len(), 1);
    assert_eq!(*run.script.listed.lock(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_the_store_are_asked_for_only_when_some_have_left() {
    let whole = Script::default()
        .list(page("3", &[("a", "1"), ("b", "2")]))
        .open_watch(vec![])
        .open_watch(vec![])
        .open_watch(vec![]);
    let selection = Uids::of(&["a"]);
    let (run, _) = joining(whole, Script::default().list(page("3", &[("b", "2")])), selection.clone());
    run.until_seen(&[("a", "1")]).await;
    let asked = || selection.asked.swap(0, Ordering::SeqCst);
    asked();
    selection.select(&["a", "b"]);
    run.until_seen(&[("a", "1"), ("b", "2")]).await;
    assert_eq!(asked(), 1, "only the new one");
    selection.lose(&["a"]);
    run.until_seen(&[("b", "2")]).await;
}

#[tokio::test(start_paused = true)]
async fn everything_is_listed_if_what_has_joined_cannot_be_listed_by_itself() {
    let mut unreadable = page("3", &[("b", "2")]).unwrap();
    unreadable.objects.push(Err(malformed()));
    for answer in [Err(expired()), Ok(unreadable)] {
        let whole = Script::default()
            .list(page("3", &[("a", "1"), ("b", "2")]))
            .open_watch(vec![])
            .list(page("6", &[("a", "1"), ("b", "6")]))
            .open_watch(vec![]);
        let selection = Uids::of(&["a"]);
        let (run, _) = joining(whole, Script::default().list(answer), selection.clone());
        run.until_seen(&[("a", "1")]).await;
        selection.select(&["a", "b"]);
        run.until_seen(&[("a", "1"), ("b", "6")]).await;
        assert_eq!(*run.script.listed.lock(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_joins_while_others_that_have_joined_are_listed_is_listed_next() {
    let whole =
        Script::default().list(page("3", &[("a", "1")])).open_watch(vec![]).open_watch(vec![]).open_watch(vec![]);
    let joined = Script::default().list(page("3", &[("b", "2"), ("c", "3")])).list(page("3", &[("c", "3")]));
    let selection = Uids::of(&["a"]);
    let (run, retriever) = joining(whole, joined, Arc::new(JoinedDuring(selection.clone())));
    run.until_seen(&[("a", "1")]).await;
    selection.select(&["a", "b"]);
    run.until_seen(&[("a", "1"), ("b", "2"), ("c", "3")]).await;
    assert_eq!(*retriever.requested.lock(), [(1, "3".to_owned()), (2, "3".to_owned())]);
}

/// When `c` is refused, it joins the selection.
struct JoinedDuring(Arc<Uids>);

impl CacheSelection for JoinedDuring {
    fn selects(&self, object: &Object) -> bool {
        let selects = self.0.selects(object);
        if object.uid() == "c" && !selects {
            self.0.select(&["a", "b", "c"]);
        }
        selects
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }
}

#[tokio::test(start_paused = true)]
async fn what_leaves_while_the_store_drops_others_is_dropped_before_what_has_joined_is_listed() {
    let whole = Script::default()
        .list(page("4", &[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]))
        .open_watch(vec![])
        .open_watch(vec![])
        .open_watch(vec![]);
    let joined = Script::default().list(page("4", &[("c", "3")]));
    let selection = Uids::of(&["a", "b", "d"]);
    let late = Arc::new(LeavesLate { uids: selection.clone(), asked: Mutex::default() });
    let (run, _) = joining(whole, joined, late.clone());
    run.until_seen(&[("a", "1"), ("b", "2"), ("d", "4")]).await;
    *late.asked.lock() = Some(Vec::new());
    selection.select(&["a", "b", "c"]);
    run.until("`c`", |seen| seen.objects.lock().contains_key("c")).await;
    assert_eq!((run.store.size().0, run.seen.objects.lock().len()), (2, 2), "the one that has left is dropped");
}

/// When the second selected object is asked for, the first one leaves the selection, once.
struct LeavesLate {
    uids: Arc<Uids>,
    asked: Mutex<Option<Vec<String>>>,
}

impl CacheSelection for LeavesLate {
    fn left(&self) -> Option<u64> {
        self.uids.left()
    }

    fn selects(&self, object: &Object) -> bool {
        let selects = self.uids.selects(object);
        let mut asked = self.asked.lock();
        if let Some(uids) = asked.as_mut().filter(|_| selects) {
            uids.push(object.uid().to_owned());
            if let [first, _] = uids.as_slice() {
                self.uids.lose(&[first]);
                *asked = None;
            }
        }
        selects
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.uids.changes()
    }
}
