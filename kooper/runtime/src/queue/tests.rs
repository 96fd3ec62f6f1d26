use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::task::JoinSet;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn queue() -> Arc<WorkQueue> {
    Arc::new(WorkQueue::new(QueueOptions::default()))
}

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(86_400);

/// tokio's timers have a resolution of a millisecond, and are late rather than early.
const RESOLUTION: Duration = Duration::from_millis(2);

/// One run of a key by a consumer.
#[derive(Debug, Clone)]
struct KeyRun {
    key: ObjectKey,
    taken: Instant,
    until: Instant,
    /// If it failed: when the key is retried, and how many runs had begun by then.
    retry: Option<(Instant, usize)>,
}

type Log = Arc<Mutex<Vec<KeyRun>>>;

/// Starts consumers that take some time for each key and may fail. `work` gets the
/// key and the number of its earlier runs.
fn consumers(
    count: usize,
    queue: &Arc<WorkQueue>,
    work: impl Fn(&ObjectKey, usize) -> (Duration, Completion) + Copy + Send + 'static,
) -> (JoinSet<()>, Log) {
    let log = Log::default();
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let (queue, log) = (queue.clone(), log.clone());
        tasks.spawn(async move {
            while let Some(item) = queue.get().await {
                let taken = Instant::now();
                let (index, calls) = {
                    let mut log = log.lock();
                    log.push(KeyRun { key: item.key.clone(), taken, until: taken + NEVER, retry: None });
                    (log.len() - 1, log.iter().filter(|run| run.key == item.key).count() - 1)
                };
                let (time, completion) = work(&item.key, calls);
                tokio::time::sleep(time).await;
                let next = queue.finish(item.ticket, completion).next;
                let mut log = log.lock();
                let begun = log.len();
                let run = &mut log[index];
                run.until = Instant::now();
                run.retry = next.filter(|_| completion.is_failure()).map(|next| (run.until + next, begun));
            }
        });
    }
    (tasks, log)
}

/// Succeeds after the given number of seconds.
fn seconds(seconds: u64) -> (Duration, Completion) {
    (Duration::from_secs(seconds), Completion::Success(None))
}

#[tokio::test(start_paused = true)]
async fn a_second_consumer_takes_the_second_delayed_key_while_the_first_one_is_busy() {
    let queue = queue();
    let (_tasks, log) = consumers(2, &queue, |_, _| seconds(600));
    tokio::task::yield_now().await;
    let start = Instant::now();
    queue.add_after(&key("a"), ms(1000));
    queue.add_after(&key("b"), ms(2000));
    tokio::time::sleep(Duration::from_secs(900)).await;
    let taken: Vec<_> = log.lock().iter().map(|run| (run.key.clone(), (run.taken - start).as_secs())).collect();
    assert_eq!(taken, [(key("a"), 1), (key("b"), 2)]);
}

#[tokio::test(start_paused = true)]
async fn another_consumer_waits_for_the_timers_when_one_stops_waiting() {
    let queue = queue();
    queue.add_after(&key("a"), ms(1000));
    let leaving = tokio::spawn({
        let queue = queue.clone();
        async move { tokio::time::timeout(ms(500), queue.get()).await.is_err() }
    });
    tokio::task::yield_now().await;
    let (_tasks, log) = consumers(1, &queue, |_, _| seconds(0));
    assert!(leaving.await.unwrap());
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(log.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_is_set_during_a_run_that_fails_is_kept_unless_the_retry_is_earlier() {
    let backoff = Backoff { initial: ms(10_000), max: ms(10_000) };
    for (retries, delay, work, expected) in [
        (None, ms(2_000), ms(0), 2),
        (None, ms(60_000), ms(0), 10),
        (Some(0), ms(60_000), ms(0), 60),
        (None, ms(2_000), ms(5_000), 5),
    ] {
        let queue = WorkQueue::new(QueueOptions { backoff, retries, ..QueueOptions::default() });
        queue.add(&key("a"), Lane::Event, Reason::External);
        let start = Instant::now();
        let item = queue.get().await.unwrap();
        queue.add_after(&item.key, delay);
        // A consumer that waits meanwhile fires the timers that are due.
        assert!(tokio::time::timeout(work, queue.get()).await.is_err());
        queue.add_rate_limited(&item);
        assert_eq!(queue.get().await.unwrap().key, key("a"));
        assert_eq!((start.elapsed() + ms(500)).as_secs(), expected, "{delay:?}");
    }
}

/// One consumer waits for a timer. When the timer fires, there is no key, because
/// another consumer took it before.
async fn cancel_a_timer(queue: &WorkQueue) {
    tokio::task::yield_now().await;
    queue.add_after(&key("cancelled"), ms(5000));
    tokio::time::sleep(ms(1)).await;
    queue.add(&key("cancelled"), Lane::Event, Reason::External);
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_taken_after_another_timer_was_cancelled() {
    let queue = queue();
    let (_tasks, log) = consumers(2, &queue, |_, _| seconds(0));
    cancel_a_timer(&queue).await;
    queue.add_after(&key("a"), ms(1000));
    tokio::time::sleep(ms(2000)).await;
    assert_eq!(log.lock().last().unwrap().key, key("a"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_is_retried_after_another_timer_was_cancelled() {
    let queue = queue();
    let fails = |key: &ObjectKey, calls| {
        let fails = key.name() == "fails" && calls == 0;
        (ms(1), if fails { Completion::Failure } else { Completion::Success(None) })
    };
    let (_tasks, log) = consumers(2, &queue, fails);
    cancel_a_timer(&queue).await;
    queue.add(&key("fails"), Lane::Event, Reason::External);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.lock().iter().filter(|run| run.key == key("fails")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_taken_while_a_failed_one_waits_for_the_rate_of_retries() {
    let queue = Arc::new(WorkQueue::new(QueueOptions { retry_rate: (1, 1), ..QueueOptions::default() }));
    let fails = |key: &ObjectKey, calls| {
        let fails = key.name() != "delayed" && calls == 0;
        (ms(0), if fails { Completion::Failure } else { Completion::Success(None) })
    };
    let (_tasks, log) = consumers(2, &queue, fails);
    for name in ["first", "second"] {
        queue.add(&key(name), Lane::Event, Reason::External);
    }
    // The retry of the second one is due, and waits for a token.
    tokio::time::sleep(ms(100)).await;
    queue.add_after(&key("delayed"), ms(200));
    tokio::time::sleep(ms(500)).await;
    let runs = |name: &str| log.lock().iter().filter(|run| run.key == key(name)).count();
    assert_eq!(["first", "second", "delayed"].map(runs), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_resync_runs_after_the_timer_of_an_earlier_one_was_cancelled() {
    let resync = Some(Duration::from_secs(180));
    let queue = Arc::new(WorkQueue::new(QueueOptions { resync, ..QueueOptions::default() }));
    let (_tasks, log) = consumers(2, &queue, |_, calls| seconds(if calls == 2 { 60 } else { 1 }));
    queue.add(&key("a"), Lane::Event, Reason::Added);
    // The third run begins shortly before the resync, and ends after it.
    for wait in [100, 150] {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        queue.add(&key("a"), Lane::Event, Reason::Modified);
    }
    tokio::time::sleep(Duration::from_secs(60 + 180)).await;
    assert_eq!(log.lock().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_its_own_write_for_a_limited_time_although_another_key_has_written_later() {
    let queue = queue();
    let start = Instant::now();
    for name in ["a", "b"] {
        let object = (CacheRef::Primary, key(name));
        let write = Revision { object, uid: "u".to_owned(), version: Some("5".to_owned()) };
        queue.record_write(&key(name), &write, WriteOrigin::Own);
        tokio::time::sleep(ms(2000)).await;
    }
    // One of them waits for the later of the writes, and another one takes the key.
    let (_tasks, log) = consumers(2, &queue, |_, _| seconds(0));
    tokio::time::sleep(ms(500)).await;
    queue.add(&key("a"), Lane::Event, Reason::Modified);
    tokio::time::sleep(ms(60_000)).await;
    let taken: Vec<_> = log.lock().iter().map(|run| (run.key.clone(), (run.taken - start).as_secs())).collect();
    assert_eq!(taken, [(key("a"), 5)]);
}

/// A time by which a key must be taken.
struct Deadline {
    key: ObjectKey,
    at: Instant,
    /// When the key was added or its timer was set.
    since: Instant,
    /// The number of runs that had begun by then.
    begun: usize,
    /// `true` for a delay, which the next delay or run of the key replaces.
    delayed: bool,
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8),
    After(u8, u64),
    Sleep(u64),
    /// A consumer waits for this time and then gives up.
    Visit(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0u8..8).prop_map(Op::Add),
        4 => (0u8..8, 0u64..3000).prop_map(|(key, delay)| Op::After(key, delay)),
        2 => (0u64..2000).prop_map(Op::Sleep),
        1 => (1u64..2000).prop_map(Op::Visit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A key that is due is taken at once if a consumer is idle.
    #[test]
    fn no_due_key_waits_while_a_consumer_is_idle(ops in prop::collection::vec(op(), 1..40), count in 1usize..4, work in 1u64..5000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let fails = move |key: &ObjectKey, calls| {
                // It fails so rarely that no change is delayed.
                let fails = key.name() < "3" && calls < 3;
                (ms(work), if fails { Completion::Failure } else { Completion::Success(None) })
            };
            let (_tasks, log) = consumers(count, &queue, fails);
            let mut dues: Vec<Deadline> = Vec::new();
            for op in ops {
                tokio::task::yield_now().await;
                let (since, begun) = (Instant::now(), log.lock().len());
                match op {
                    Op::Add(n) => {
                        let key = key(&n.to_string());
                        queue.add(&key, Lane::Event, Reason::External);
                        dues.push(Deadline { key, at: since, since, begun, delayed: false });
                    }
                    Op::After(n, delay) => {
                        let key = key(&n.to_string());
                        queue.add_after(&key, ms(delay));
                        dues.push(Deadline { key, at: since + ms(delay), since, begun, delayed: true });
                    }
                    Op::Sleep(time) => tokio::time::sleep(ms(time)).await,
                    Op::Visit(time) => {
                        let (queue, log) = (queue.clone(), log.clone());
                        tokio::spawn(async move {
                            if let Ok(Some(item)) = tokio::time::timeout(ms(time), queue.get()).await {
                                let taken = Instant::now();
                                log.lock().push(KeyRun { key: item.key.clone(), taken, until: taken, retry: None });
                                // Add it again for the consumers.
                                queue.done(&item);
                                queue.add(&item.key, Lane::Event, Reason::External);
                            }
                        });
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let log = log.lock();
            for run in log.iter() {
                if let Some((at, begun)) = run.retry {
                    dues.push(Deadline { key: run.key.clone(), at, since: run.until, begun, delayed: true });
                }
            }
            let running = |run: &KeyRun, time: Instant| run.taken <= time && time < run.until;
            for due in &mut dues {
                // A key does not run twice at the same time.
                let until = log[..due.begun].iter().filter(|run| run.key == due.key && running(run, due.at)).map(|run| run.until);
                due.at = until.max().unwrap_or(due.at);
            }
            for (index, due) in dues.iter().enumerate() {
                let (key, at) = (&due.key, due.at);
                let taken = log.iter().filter(|run| run.key == *key).map(|run| run.taken).find(|taken| *taken >= at);
                // While no consumer is idle, a delay can still be replaced.
                let until = taken.unwrap_or(due.at);
                let replaced = |other: &Deadline| other.delayed && other.key == *key && (due.since..=until).contains(&other.since);
                let others = dues.iter().enumerate().any(|(other, replacing)| other != index && replaced(replacing));
                let called = log[due.begun..].iter().any(|run| run.key == *key && run.taken < at);
                if due.delayed && (called || others) {
                    continue;
                }
                let Some(taken) = taken else { panic!("{key} was never taken") };
                let moments = log.iter().flat_map(|run| [run.taken, run.until]).chain([at + RESOLUTION]).filter(|time| at + RESOLUTION <= *time && *time < taken);
                for time in moments {
                    let same = log.iter().any(|run| run.key == *key && running(run, time));
                    let busy = log.iter().filter(|run| run.key != *key && running(run, time)).count();
                    assert!(same || busy >= count, "{key} is due while a consumer is idle");
                }
            }
        });
    }
}

fn names(views: &[KeyView]) -> Vec<&str> {
    views.iter().map(|view| view.key.name()).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_read_in_the_order_in_which_they_run_and_by_a_selection() {
    let queue = queue();
    for name in 0..3_000 {
        queue.add(&key(&format!("k{name}")), Lane::Event, Reason::Modified);
    }
    let item = queue.get().await.unwrap();
    assert_eq!(item.key, key("k0"));
    queue.add_rate_limited(&item);
    assert_eq!(names(&queue.views(&[key("k2999"), key("unknown"), key("k1")])), ["k2999", "k1"]);
    assert_eq!(names(&queue.upcoming(3)), ["k1", "k2", "k3"]);
    let all = queue.upcoming(5_000);
    assert_eq!((all.len(), names(&all).last()), (3_000, Some(&"k0")), "it is retried later");
    let mut found = 0;
    let selected = queue.select(|key| {
        found += usize::from(key.as_str().contains("ns/k12"));
        key.as_str().contains("ns/k12") && found <= 11
    });
    assert_eq!((selected.len(), found), (11, 111));
    queue.clear();
    assert!(queue.upcoming(10).is_empty() && queue.views(&[key("k1")]).is_empty());
}
