//! Streaming lists of servers that never end them.

use super::*;
use crate::watch::retriever::Retriever;

const SECOND: Duration = Duration::from_secs(1);

/// A server that sends the objects and the changes without the end of the list, as
/// kcp does: an object at the start, and another one in each interval.
struct Endless {
    start: Instant,
    every: Duration,
    streams: Mutex<u32>,
}

impl Endless {
    fn new(every: Duration) -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), every, streams: Mutex::default() })
    }

    /// The number of objects by now, which is also the version.
    fn count(&self) -> u32 {
        let passed = self.start.elapsed().as_millis() / self.every.as_millis().max(1);
        1 + u32::try_from(passed).unwrap()
    }
}

struct EndlessRetriever(Arc<Endless>);

impl Retriever<()> for EndlessRetriever {
    async fn list(&self, _: ListRequest) -> Listing {
        let count = self.0.count();
        let names: Vec<_> = (1..=count).map(|n| (format!("o{n}"), n.to_string())).collect();
        let objects: Vec<_> = names.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
        page(&count.to_string(), &objects)
    }

    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<impl futures_util::Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        let from = request.version.parse().unwrap_or(0);
        *self.0.streams.lock() += u32::from(request.initial_events);
        let server = self.0.clone();
        Ok(stream::unfold((from, server), |(from, server)| async move {
            tokio::time::sleep_until(server.start + from * server.every).await;
            Some((added(&format!("o{}", from + 1), &(from + 1).to_string()), (from + 1, server)))
        })
        .boxed())
    }

    fn streams_lists(&self) -> bool {
        true
    }

    fn longest_silence(&self) -> Option<Duration> {
        Some(180 * SECOND)
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_does_not_end_is_left_after_a_minute() {
    // Without another object, with one now and then, and with many: the first one that is known to be newer than the
    // list is withheld for a minute.
    for (every, left) in [(3600, 60), (30, 90), (10, 70), (1, 66)] {
        let server = Endless::new(every * SECOND);
        let run = run_over(Script::default(), erase::<(), _>(EndlessRetriever(server.clone())));
        // Not at the moment of a change.
        tokio::time::sleep(Duration::from_millis(left * 1000 + 500)).await;
        assert!(run.status.is_synced(), "one each {every} s");
        assert_eq!(run.store.size().0 as u32, server.count());
        tokio::time::sleep(every * SECOND).await;
        assert_eq!(run.store.size().0 as u32, server.count(), "changes arrive");
        assert_eq!(*server.streams.lock(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_streaming_list_may_take_longer_than_a_minute() {
    let start = Instant::now();
    // 30 objects are there, and each takes 20 s.
    let slow = from_fns::<(), _, _, _, _, _>(
        |request: ListRequest| async move {
            assert_eq!(request.limit, 1, "nothing but the version is listed");
            page("30", &[("o1", "1")])
        },
        |_: WatchRequest| async {
            Ok(stream::iter(1..=31).then(|n| async move {
                tokio::time::sleep(20 * SECOND).await;
                if n == 31 { bookmark("30", true) } else { added(&format!("o{n}"), &n.to_string()) }
            }))
        },
    );
    let run = run_over(Script::default(), Arc::new(Streaming(erase::<(), _>(slow), true)));
    run.until("synced", |_| run.status.is_synced()).await;
    assert_eq!((run.store.size().0, start.elapsed().as_secs()), (30, 620));
}

/// Runs an informer that shares what is known of its server, until it should have listed all objects.
async fn synced_after(time: Duration, retriever: Arc<dyn ErasedRetriever>, stream_ends: &Arc<Mutex<Option<bool>>>) {
    let (store, status) = (Arc::default(), Arc::new(WatchStatus::new("test", "pods", None, false, true)));
    let informer = Informer::new(retriever, store, status.clone(), Arc::new(RecordingSink::default()));
    let stop = CancellationToken::new();
    tokio::spawn(informer.of_server(stream_ends).run(stop.clone()));
    tokio::time::sleep(time).await;
    assert!(status.is_synced());
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn the_other_watches_of_a_server_that_does_not_end_streaming_lists_do_not_try() {
    let server = Endless::new(3600 * SECOND);
    let stream_ends = Arc::default();
    for time in [61 * SECOND, SECOND] {
        synced_after(time, erase::<(), _>(EndlessRetriever(server.clone())), &stream_ends).await;
    }
    assert_eq!(*server.streams.lock(), 1);
    assert_eq!(*stream_ends.lock(), Some(false));
}

#[tokio::test(start_paused = true)]
async fn one_stream_without_an_end_or_without_a_response_does_not_turn_streaming_lists_off() {
    let ended = || Script::default().open_watch(vec![added("a", "1"), bookmark("5", true)]);
    let stalled = || Script::default().open_watch(vec![added("a", "1")]).list(page("6", &[("a", "1")]));
    let unanswered = || Script::default().list(page("6", &[("a", "1")]));
    for scripts in [vec![ended(), stalled(), ended()], vec![unanswered(), ended()]] {
        let stream_ends = Arc::default();
        let scripts: Vec<_> = scripts.into_iter().map(Arc::new).collect();
        for script in &scripts {
            synced_after(61 * SECOND, scripted(script, true), &stream_ends).await;
        }
        assert_eq!(*scripts[scripts.len() - 1].listed.lock(), 0, "the last list is streamed");
    }
}
