//! Watches that say nothing, because nothing happens or because they are dead.

use std::collections::VecDeque;

use super::*;
use crate::watch::retriever::Retriever;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A server that sends no bookmarks, as kube-apiserver for Events.
#[derive(Default)]
struct Server {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    version: u64,
    /// The oldest version that a watch may begin at.
    oldest: u64,
    changes: Vec<(u64, &'static str)>,
    /// For each of the next watches: `true` if it is open but never yields anything.
    stalls: VecDeque<bool>,
    /// The answer to a list of one object, instead of the version.
    fails: Option<RetrieveError>,
    /// The longest silence; `None` for that of kube-apiserver.
    silence: Option<Duration>,
    lists: u32,
    asked: u32,
    watches: u32,
    open: u32,
}

/// Counts a watch while it is open.
struct Opened(Arc<Server>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.state.lock().open -= 1;
    }
}

impl Server {
    fn new() -> Arc<Self> {
        let server = Self::default();
        server.state.lock().version = 100;
        Arc::new(server)
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A change of another kind.
    fn advance(&self) -> u64 {
        let mut state = self.state();
        state.version += 1;
        state.version
    }

    fn add(&self, name: &'static str) -> String {
        let version = self.advance();
        self.state().changes.push((version, name));
        self.changed.notify_waiters();
        version.to_string()
    }

    /// The next change after a version, once it is there.
    async fn next(&self, from: u64) -> (u64, &'static str) {
        loop {
            let changed = self.changed.notified();
            let change = self.state().changes.iter().find(|(version, _)| *version > from).copied();
            match change {
                Some(change) => return change,
                None => changed.await,
            }
        }
    }
}

struct Quiet(Arc<Server>);

impl Retriever<()> for Quiet {
    async fn list(&self, request: ListRequest) -> Listing {
        let mut state = self.0.state();
        if request.limit == 1 {
            state.asked += 1;
            if let Some(error) = &state.fails {
                return Err(error.clone());
            }
        } else {
            state.lists += 1;
        }
        let versions: Vec<_> = state.changes.iter().map(|(version, name)| (*name, version.to_string())).collect();
        let objects: Vec<_> = versions.iter().map(|(name, version)| (*name, version.as_str())).collect();
        page(&state.version.to_string(), &objects)
    }

    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<impl futures_util::Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        let from: u64 = request.version.parse().unwrap();
        let mut state = self.0.state();
        if from < state.oldest {
            return Err(expired());
        }
        state.watches += 1;
        state.open += 1;
        let stalled = state.stalls.pop_front().unwrap_or_default();
        let opened = Opened(self.0.clone());
        let ends = Instant::now() + 290 * SECOND;
        Ok(stream::unfold((from, opened), move |(from, opened)| async move {
            if stalled {
                std::future::pending::<()>().await;
            }
            let (version, name) = tokio::time::timeout_at(ends, opened.0.next(from)).await.ok()?;
            Some((added(name, &version.to_string()), (version, opened)))
        })
        .boxed())
    }

    fn longest_silence(&self) -> Option<Duration> {
        Some(self.0.state().silence.unwrap_or(180 * SECOND))
    }
}

/// A server, and an informer over it that has listed.
async fn watched() -> (Arc<Server>, RunningInformer) {
    let server = Server::new();
    let run = watch(&server).await;
    (server, run)
}

/// Runs an informer over the server until it has listed.
async fn watch(server: &Arc<Server>) -> RunningInformer {
    let run = run_over(Script::default(), erase::<(), _>(Quiet(server.clone())));
    run.until("synced", |_| run.status.is_synced()).await;
    run
}

/// Lets seconds pass. The process is ready in each, and the alert does not fire.
async fn pass(run: &RunningInformer, seconds: u64, mut each: impl FnMut(u64)) {
    for second in 1..=seconds {
        each(second);
        tokio::time::sleep(SECOND).await;
        assert_eq!(run.status.ready(), Ok(None), "in second {second}");
        // It fires above 200 s that last for two minutes.
        assert!(run.status.silence() <= 319 * SECOND, "in second {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_quiet_hour_with_compactions_nothing_is_listed_and_the_process_is_ready() {
    let (server, run) = watched().await;
    let mut compacted = 0;
    pass(&run, 3600, |second| {
        let version = server.advance();
        if second % 300 == 0 {
            // As kube-apiserver does: to the version of five minutes ago.
            server.state().oldest = std::mem::replace(&mut compacted, version);
        }
    })
    .await;
    let added = server.add("a");
    tokio::time::sleep(SECOND).await;
    run.until_seen(&[("a", &added)]).await;
    let state = server.state();
    assert_eq!(state.lists, 1, "the first one");
    assert!((20..60).contains(&state.asked) && state.watches < 60, "{} {}", state.asked, state.watches);
}

#[tokio::test(start_paused = true)]
async fn in_a_cluster_without_any_change_no_second_watch_is_opened() {
    let (server, run) = watched().await;
    pass(&run, 3600, |_| assert_eq!(server.state().open, 1)).await;
    assert_eq!(server.state().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_may_never_be_silent_is_not_probed_in_a_loop() {
    let server = Server::new();
    server.state().silence = Some(Duration::ZERO);
    let run = run_over(Script::default(), erase::<(), _>(Quiet(server.clone())));
    for _ in 0..1000 {
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let asked = server.state().asked;
    assert!(run.status.is_synced() && (1..=2).contains(&asked), "{asked} probes in a second");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_a_stalled_watch_does_not_deliver_is_seen_within_180_seconds() {
    // Each delay of the change meets another moment of the probes.
    for delay in (0..400).step_by(7) {
        for stalled in [1, 2] {
            let server = Server::new();
            server.state().stalls = vec![true; stalled].into();
            let run = watch(&server).await;
            pass(&run, delay, |_| _ = server.advance()).await;
            let (added, started) = (server.add("a"), Instant::now());
            run.until_seen(&[("a", &added)]).await;
            let took = started.elapsed();
            assert!(took <= 180 * SECOND, "after {delay} s and {stalled} stalled watches: {took:?}");
            let state = server.state();
            assert_eq!((state.lists, state.open), (1, 1), "the dead watch is left");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_three_watches_lose_is_not_lost() {
    let server = Server::new();
    server.state().stalls = vec![true; 3].into();
    let run = watch(&server).await;
    let added = server.add("a");
    run.until_seen(&[("a", &added)]).await;
    assert_eq!(server.state().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_during_a_probe_is_resumed_and_the_probe_goes_on() {
    let (server, run) = watched().await;
    // An object at 200 s: the watch ends at 290 s, in the middle of the next probe.
    pass(&run, 1200, |second| {
        if second == 200 {
            server.add("a");
        }
        server.advance();
    })
    .await;
    assert_eq!(server.state().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_for_a_second_watch_is_listed_once() {
    let (server, run) = watched().await;
    let version = server.advance();
    server.state().oldest = version;
    pass(&run, 600, |_| _ = server.advance()).await;
    assert_eq!(server.state().lists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_version_went_back_is_listed_and_accepted() {
    let (server, run) = watched().await;
    server.state().version = 50;
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(*run.seen.restores.lock(), 1);
    let added = server.add("a");
    run.until_seen(&[("a", &added)]).await;
    assert_eq!(added, "51");
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_to_list_a_quiet_watch_is_proven_by_a_second_one() {
    let (server, run) = watched().await;
    server.state().fails = Some(RetrieveError::Forbidden("events is forbidden".to_owned()));
    pass(&run, 3600, |_| _ = server.advance()).await;
    assert_eq!(server.state().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_to_answer_is_listed_after_two_silences() {
    let (server, run) = watched().await;
    server.state().fails = Some(RetrieveError::Status { code: 500, message: "boom".to_owned() });
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(server.state().lists, 1);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(server.state().lists, 2);
    assert!(run.status.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_probe_closes_both_watches() {
    let (server, run) = watched().await;
    server.advance();
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(server.state().open, 2);
    run.stop.cancel();
    tokio::time::sleep(SECOND).await;
    assert_eq!(server.state().open, 0);
}

#[tokio::test(start_paused = true)]
async fn the_probes_of_many_watches_are_spread() {
    let server = Server::new();
    let mut all = Vec::new();
    for _ in 0..50 {
        all.push(watch(&server).await);
    }
    server.advance();
    let mut most = 0;
    for _ in 0..100 {
        let before = server.state().asked;
        tokio::time::sleep(SECOND).await;
        most = most.max(server.state().asked - before);
    }
    assert_eq!(server.state().asked, 50);
    assert!(most <= 20, "{most} in a second");
}
