use std::sync::{Arc, Mutex};

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

/// When consumers took which key, and when each gave it back.
type Log = Arc<Mutex<Vec<(ObjectKey, Instant, Instant)>>>;

/// Starts consumers that work for a time on each key.
fn consumers(
    count: usize,
    queue: &Arc<WorkQueue>,
    work: impl Fn(&ObjectKey) -> Duration + Copy + Send + 'static,
) -> (JoinSet<()>, Log) {
    let log = Log::default();
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let (queue, log) = (queue.clone(), log.clone());
        tasks.spawn(async move {
            while let Some(item) = queue.get().await {
                let taken = Instant::now();
                let index = log.lock().unwrap().len();
                log.lock().unwrap().push((item.key.clone(), taken, taken + NEVER));
                tokio::time::sleep(work(&item.key)).await;
                log.lock().unwrap()[index].2 = Instant::now();
                queue.done(&item);
            }
        });
    }
    (tasks, log)
}

#[tokio::test(start_paused = true)]
async fn a_second_consumer_serves_the_second_timer_while_the_first_one_works() {
    let queue = queue();
    let (_tasks, log) = consumers(2, &queue, |_| Duration::from_secs(600));
    tokio::task::yield_now().await;
    let start = Instant::now();
    queue.add_after(&key("a"), ms(1000));
    queue.add_after(&key("b"), ms(2000));
    tokio::time::sleep(Duration::from_secs(900)).await;
    let taken: Vec<_> = log.lock().unwrap().iter().map(|(key, at, _)| (key.clone(), (*at - start).as_secs())).collect();
    assert_eq!(taken, [(key("a"), 1), (key("b"), 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_stops_waiting_leaves_the_timers_to_another() {
    let queue = queue();
    queue.add_after(&key("a"), ms(1000));
    let leaving = tokio::spawn({
        let queue = queue.clone();
        async move { tokio::time::timeout(ms(500), queue.get()).await.is_err() }
    });
    tokio::task::yield_now().await;
    let (_tasks, log) = consumers(1, &queue, |_| ms(1));
    assert!(leaving.await.unwrap());
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[derive(Debug, Clone)]
enum Step {
    Add(u8),
    After(u8, u64),
    Sleep(u64),
    /// A consumer waits for so long, and gives up.
    Visit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u8..8).prop_map(Step::Add),
        4 => (0u8..8, 0u64..3000).prop_map(|(key, delay)| Step::After(key, delay)),
        2 => (0u64..2000).prop_map(Step::Sleep),
        1 => (1u64..2000).prop_map(Step::Visit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A key that is due is taken at once as long as a consumer is idle.
    #[test]
    fn no_due_key_waits_while_a_consumer_is_idle(steps in prop::collection::vec(step(), 1..40), count in 1usize..4, work in 1u64..5000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let (_tasks, log) = consumers(count, &queue, move |_| ms(work));
            // When each key is due for the first time since it was taken last.
            let mut due: Vec<(ObjectKey, Instant)> = Vec::new();
            for step in steps {
                tokio::task::yield_now().await;
                let now = Instant::now();
                match step {
                    Step::Add(n) => {
                        queue.add(&key(&n.to_string()), Lane::Event, Reason::External);
                        due.push((key(&n.to_string()), now));
                    }
                    Step::After(n, delay) => {
                        // The last wish of a key counts; with keys of their own each is served.
                        let key = key(&format!("{n} {}", due.len()));
                        queue.add_after(&key, ms(delay));
                        due.push((key, now + ms(delay)));
                    }
                    Step::Sleep(time) => tokio::time::sleep(ms(time)).await,
                    Step::Visit(time) => {
                        let queue = queue.clone();
                        tokio::spawn(async move {
                            if let Ok(Some(item)) = tokio::time::timeout(ms(time), queue.get()).await {
                                // It is put back for the consumers.
                                queue.done(&item);
                                queue.add(&item.key, Lane::Event, Reason::External);
                            }
                        });
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let log = log.lock().unwrap();
            for (key, at) in due {
                let Some(taken) = log.iter().filter(|(one, ..)| *one == key).map(|(_, taken, _)| *taken).find(|taken| *taken >= at) else {
                    panic!("{key} was never taken");
                };
                let running = |(one, taken, until): &(ObjectKey, Instant, Instant), time: Instant| *taken <= time && time < *until && *one != key;
                let moments = log.iter().flat_map(|(_, taken, until)| [*taken, *until]).chain([at + RESOLUTION]).filter(|time| at + RESOLUTION <= *time && *time < taken);
                for time in moments {
                    let same = log.iter().any(|(one, began, until)| *one == key && *began <= time && time < *until);
                    let busy = log.iter().filter(|entry| running(entry, time)).count();
                    assert!(same || busy >= count, "{key} is due while a consumer is idle");
                }
            }
        });
    }
}
