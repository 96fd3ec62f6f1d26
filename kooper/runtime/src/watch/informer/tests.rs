//! Faults of a source, and their effect on the store and the sink. Time is paused,
//! so the tests do not wait.

mod joined;
mod liveness;
mod selection;
mod streams;
mod trouble;

use std::collections::{BTreeMap, VecDeque};

use futures_util::future::BoxFuture;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::metrics::health::Probe;
use crate::object::key::ObjectKey;
use crate::object::{MalformedObject, Object};
use crate::watch::retriever::{Page, erase, from_fns};

/// One response to a watch: its events, and whether it stays open after them.
struct Watch {
    expects: Option<&'static str>,
    events: Vec<Result<Event, RetrieveError>>,
    stays_open: bool,
}

type Listing = Result<Page, RetrieveError>;
type Opening = Result<Watch, RetrieveError>;

/// A source that follows a script and then stays silent.
#[derive(Default)]
struct Script {
    lists: Mutex<VecDeque<(Option<&'static str>, Listing)>>,
    watches: Mutex<VecDeque<Opening>>,
    listed: Mutex<u32>,
    limits: Mutex<Vec<u32>>,
    /// The response to requests for the current version; without it they are not answered.
    current: Mutex<Option<&'static str>>,
    watched: Mutex<Vec<String>>,
}

impl Script {
    fn list(self, answer: Listing) -> Self {
        self.lists.lock().push_back((None, answer));
        self
    }

    fn watch(self, events: Vec<Result<Event, RetrieveError>>) -> Self {
        self.opening(Ok(Watch { expects: None, events, stays_open: false }))
    }

    fn watch_from(self, version: &'static str, events: Vec<Result<Event, RetrieveError>>) -> Self {
        self.opening(Ok(Watch { expects: Some(version), events, stays_open: false }))
    }

    fn open_watch(self, events: Vec<Result<Event, RetrieveError>>) -> Self {
        self.opening(Ok(Watch { expects: None, events, stays_open: true }))
    }

    fn opening(self, opening: Opening) -> Self {
        self.watches.lock().push_back(opening);
        self
    }

    /// Runs an informer over the script.
    fn run(self) -> RunningInformer {
        self.run_with(false, None)
    }

    fn run_streaming(self) -> RunningInformer {
        self.run_with(true, None)
    }

    /// Runs an informer whose store keeps only some objects.
    fn run_selecting(self, streaming: bool, selection: Arc<dyn CacheSelection>) -> RunningInformer {
        self.run_with(streaming, Some(selection))
    }

    fn run_with(self, streaming: bool, selection: Option<Arc<dyn CacheSelection>>) -> RunningInformer {
        let script = Arc::new(self);
        let retriever = scripted(&script, streaming);
        run_selecting(script, retriever, selection)
    }
}

/// Records what a controller would receive.
#[derive(Default)]
struct RecordingSink {
    objects: Mutex<BTreeMap<String, String>>,
    log: Mutex<Vec<String>>,
    relists: Mutex<u32>,
    malformed: Mutex<u32>,
    restores: Mutex<u32>,
    changed: Notify,
}

impl Sink for RecordingSink {
    fn changed(&self, change: &Change, seen: ChangeSource) {
        let key = change.key().map(ObjectKey::to_string).unwrap_or_default();
        let mut log = self.log.lock();
        match &change.new {
            Some(new) => {
                self.objects.lock().insert(key.clone(), new.version().to_owned());
                log.push(format!(
                    "{} {key}",
                    if seen == ChangeSource::First {
                        "initial"
                    } else if change.old.is_some() {
                        "modified"
                    } else {
                        "added"
                    }
                ));
            }
            None => {
                self.objects.lock().remove(&key);
                log.push(format!("deleted {key}"));
            }
        }
        self.changed.notify_one();
    }

    fn left(&self, object: &Arc<Object>) {
        let key = object.key().to_string();
        self.objects.lock().remove(&key);
        self.log.lock().push(format!("left {key}"));
        self.changed.notify_one();
    }

    fn signal(&self, signal: Signal<'_>) {
        match signal {
            Signal::Relisted => {
                *self.relists.lock() += 1;
                self.changed.notify_one();
            }
            Signal::Restored => *self.restores.lock() += 1,
            Signal::Malformed => *self.malformed.lock() += 1,
            Signal::Served | Signal::Failed(_) => {}
        }
    }
}

struct RunningInformer {
    seen: Arc<RecordingSink>,
    store: Arc<Store>,
    status: Arc<WatchStatus>,
    script: Arc<Script>,
    stop: CancellationToken,
}

/// A retriever with streaming lists, or without.
struct Streaming(Arc<dyn ErasedRetriever>, bool);
impl ErasedRetriever for Streaming {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Listing> {
        self.0.list(request)
    }
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Events, RetrieveError>> {
        self.0.watch(request)
    }
    fn streams_lists(&self) -> bool {
        self.1
    }
    fn longest_silence(&self) -> Option<Duration> {
        Some(Duration::from_secs(180))
    }
}

fn scripted(script: &Arc<Script>, streaming: bool) -> Arc<dyn ErasedRetriever> {
    let (lists, watches) = (script.clone(), script.clone());
    let source = from_fns::<(), _, _, _, _, _>(
        move |request: ListRequest| {
            if request.limit == 1 {
                let current = *lists.current.lock();
                return async move {
                    match current {
                        Some(version) => page(version, &[]),
                        None => std::future::pending().await,
                    }
                }
                .left_future();
            }
            let next = lists.lists.lock().pop_front();
            *lists.listed.lock() += 1;
            lists.limits.lock().push(request.limit);
            async move {
                match next {
                    Some((token, answer)) => {
                        assert_eq!(request.continue_token.as_deref(), token);
                        answer
                    }
                    None => std::future::pending().await,
                }
            }
            .right_future()
        },
        move |request: WatchRequest| {
            let next = watches.watches.lock().pop_front();
            watches.watched.lock().push(request.version.clone());
            async move {
                let Some(opening) = next else { return std::future::pending().await };
                let watch = opening?;
                if let Some(expected) = watch.expects {
                    assert_eq!(request.version, expected);
                }
                let tail = if watch.stays_open { stream::pending().boxed() } else { stream::empty().boxed() };
                Ok(stream::iter(watch.events).chain(tail))
            }
        },
    );
    Arc::new(Streaming(erase::<(), _>(source), streaming))
}

fn run_over(script: impl Into<Arc<Script>>, retriever: Arc<dyn ErasedRetriever>) -> RunningInformer {
    run_selecting(script, retriever, None)
}

/// Runs an informer whose store keeps only some objects.
fn run_selecting(
    script: impl Into<Arc<Script>>,
    retriever: Arc<dyn ErasedRetriever>,
    selection: Option<Arc<dyn CacheSelection>>,
) -> RunningInformer {
    let script = script.into();
    let (seen, store) = (Arc::new(RecordingSink::default()), Arc::new(Store::default()));
    let status = Arc::new(WatchStatus::new("test", "pods", None, false, true));
    status.require();
    let stop = CancellationToken::new();
    let informer = Informer::new(retriever, store.clone(), status.clone(), seen.clone()).selecting(selection);
    tokio::spawn(informer.run(stop.clone()));
    RunningInformer { seen, store, status, script, stop }
}

impl RunningInformer {
    async fn until(&self, what: &str, holds: impl Fn(&RecordingSink) -> bool) {
        let wait = async {
            while !holds(&self.seen) {
                let _ = timeout(Duration::from_millis(100), self.seen.changed.notified()).await;
            }
        };
        timeout(Duration::from_secs(7200), wait)
            .await
            .unwrap_or_else(|_| panic!("never: {what}; seen {:?}", self.seen.log));
    }

    async fn until_seen(&self, objects: &[(&str, &str)]) {
        let want: BTreeMap<String, String> =
            objects.iter().map(|(key, version)| ((*key).to_owned(), (*version).to_owned())).collect();
        self.until(&format!("{want:?}"), |seen| *seen.objects.lock() == want).await;
        for (key, version) in objects {
            assert_eq!(
                self.store.get(&ObjectKey::cluster_scoped(key)).unwrap().version(),
                *version,
                "the store and the sink agree"
            );
        }
        assert_eq!(self.store.size().0, objects.len());
    }
}

impl Drop for RunningInformer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn object(name: &str, version: &str) -> Object {
    Object::parse(
        format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#).as_bytes(),
    )
    .unwrap()
}

fn page(version: &str, objects: &[(&str, &str)]) -> Listing {
    let objects = objects.iter().map(|(name, version)| Ok(object(name, version))).collect();
    Ok(Page { objects, version: version.to_owned(), continue_token: None })
}

fn added(name: &str, version: &str) -> Result<Event, RetrieveError> {
    Ok(Event::Added(object(name, version)))
}

fn modified(name: &str, version: &str) -> Result<Event, RetrieveError> {
    Ok(Event::Modified(object(name, version)))
}

fn deleted(name: &str, version: &str) -> Result<Event, RetrieveError> {
    Ok(Event::Deleted(object(name, version)))
}

fn bookmark(version: &str, end: bool) -> Result<Event, RetrieveError> {
    Ok(Event::Bookmark { version: version.to_owned(), initial_events_end: end })
}

fn malformed() -> MalformedObject {
    Object::parse(b"{}").unwrap_err()
}

fn expired() -> RetrieveError {
    RetrieveError::Expired("too old resource version".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_list_and_then_each_event_reach_the_store_and_the_sink() {
    let run = Script::default()
        .list(page("5", &[("a", "1"), ("b", "2")]))
        .watch_from("5", vec![modified("a", "6"), deleted("b", "7"), added("c", "8")])
        .run();
    run.until_seen(&[("a", "6"), ("c", "8")]).await;
    let mut log = run.seen.log.lock().clone();
    log[..2].sort();
    assert_eq!(log, ["initial a", "initial b", "modified a", "deleted b", "added c"]);
}

#[tokio::test(start_paused = true)]
async fn other_tasks_run_while_a_long_list_is_processed() {
    let names: Vec<String> = (0..10_000).map(|name| name.to_string()).collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let run = Script::default().list(page("5", &objects)).run();
    let mut turns = 0;
    while !run.status.is_synced() {
        turns += 1;
        tokio::task::yield_now().await;
    }
    assert!(turns >= 50, "{turns} turns");
    run.until_seen(&objects).await;
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_list_are_combined() {
    let first = Page { continue_token: Some("next".to_owned()), ..page("5", &[("a", "1")]).unwrap() };
    let script = Script::default();
    script.lists.lock().extend([(None, Ok(first)), (Some("next"), page("5", &[("b", "2")]))]);
    let run = script.run();
    run.until_seen(&[("a", "1"), ("b", "2")]).await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_restarts_the_list_with_larger_pages_and_at_last_as_a_whole_after_a_pause() {
    let first = || Page { continue_token: Some("next".to_owned()), ..page("5", &[("ghost", "1")]).unwrap() };
    let script = Script::default();
    for _ in 0..10 {
        script.lists.lock().extend([(None, Ok(first())), (Some("next"), Err(expired()))]);
    }
    script.lists.lock().push_back((None, page("6", &[("a", "1"), ("b", "2")])));
    let (run, started) = (script.run(), Instant::now());
    run.until_seen(&[("a", "1"), ("b", "2")]).await;
    assert!(started.elapsed() > Duration::from_secs(30), "{:?}", started.elapsed());
    let mut limits = run.script.limits.lock().clone();
    limits.dedup();
    assert_eq!(limits, [500, 1000, 2000, 4000, 8000, u32::MAX]);
}

#[tokio::test(start_paused = true)]
async fn a_page_may_take_longer_than_a_watch_may_be_silent() {
    let slow = from_fns::<(), _, _, _, _, _>(
        |_| async {
            tokio::time::sleep(Duration::from_secs(3000)).await;
            page("5", &[("a", "1")])
        },
        |_| async { Ok(stream::pending()) },
    );
    let run = run_over(Script::default(), Arc::new(Streaming(erase::<(), _>(slow), false)));
    run.until_seen(&[("a", "1")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_a_request_for_a_streaming_list_is_detected_by_its_first_bookmark() {
    let script = Script::default()
        .open_watch(vec![added("a", "1"), bookmark("5", false)])
        .list(page("6", &[("a", "1"), ("b", "6")]));
    let (run, started) = (script.run_streaming(), Instant::now());
    run.until_seen(&[("a", "1"), ("b", "6")]).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_continues_as_a_watch() {
    let run = Script::default()
        .watch(vec![added("a", "1"), added("b", "2"), bookmark("5", true), modified("a", "6")])
        .watch_from("6", vec![deleted("b", "7")])
        .run_streaming();
    run.until_seen(&[("a", "6")]).await;
    assert_eq!(*run.script.listed.lock(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_object_is_reported_before_the_streaming_list_is_complete() {
    let run = Script::default().open_watch(vec![added("a", "1")]).list(page("6", &[("a", "1")])).run_streaming();
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(!run.status.is_synced() && run.seen.log.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn lists_are_requested_in_pages_if_the_server_has_no_streaming_lists() {
    let refused = Err(RetrieveError::NoStreaming("sendInitialEvents is forbidden".to_owned()));
    let run = Script::default()
        .opening(refused)
        .list(page("5", &[("a", "1")]))
        .watch_from("5", vec![added("b", "6")])
        .run_streaming();
    run.until_seen(&[("a", "1"), ("b", "6")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_without_its_end_falls_back_to_pages() {
    let run = Script::default()
        .watch(vec![added("ghost", "1")])
        .watch(vec![added("ghost", "1")])
        .list(page("5", &[("a", "1")]))
        .run_streaming();
    run.until_seen(&[("a", "1")]).await;
}

#[tokio::test(start_paused = true)]
async fn a_410_relists_once_and_reveals_what_was_deleted_in_the_gap() {
    for start in [true, false] {
        let script = Script::default().list(page("5", &[("a", "1"), ("gone", "2")]));
        let script = if start {
            script.opening(Err(expired()))
        } else {
            script.watch(vec![bookmark("6", false), Err(expired())])
        };
        let run = script.list(page("9", &[("a", "1"), ("b", "8")])).watch_from("9", vec![added("c", "10")]).run();
        run.until_seen(&[("a", "1"), ("b", "8"), ("c", "10")]).await;
        assert!(run.seen.log.lock().contains(&"deleted gone".to_owned()));
        assert_eq!((*run.seen.relists.lock(), *run.script.listed.lock()), (1, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_closed_is_resumed_from_the_last_version_without_a_relist() {
    let run = Script::default()
        .list(page("5", &[]))
        .watch_from("5", vec![added("a", "6")])
        .watch_from("6", vec![bookmark("20", false)])
        .watch_from("20", vec![modified("a", "21")])
        .run();
    run.until_seen(&[("a", "21")]).await;
    assert_eq!(*run.seen.relists.lock(), 0);
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_reported_once() {
    let run = Script::default()
        .list(page("5", &[("a", "5")]))
        .watch(vec![added("a", "5"), modified("a", "6"), modified("a", "6"), added("z", "7")])
        .run();
    run.until_seen(&[("a", "6"), ("z", "7")]).await;
    assert_eq!(*run.seen.log.lock(), ["initial a", "modified a", "added z"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_closes_at_once_is_retried_with_growing_delays() {
    let mut script = Script::default().list(page("5", &[]));
    for _ in 0..200 {
        script = script.watch(vec![]);
    }
    let run = script.run();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let tries = run.script.watched.lock().len();
    assert!((6..20).contains(&tries), "{tries} tries in two minutes");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_ends_at_once_does_not_spin() {
    let ends: [fn() -> Opening; 2] =
        [|| Ok(Watch { expects: None, events: vec![bookmark("5", false)], stays_open: false }), || Err(expired())];
    for end in ends {
        let mut script = Script::default();
        for _ in 0..2000 {
            script = script.list(page("5", &[])).opening(end());
        }
        let run = script.run();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let tries = run.script.watched.lock().len();
        assert!((6..=301).contains(&tries), "{tries} tries in a minute");
    }
}
