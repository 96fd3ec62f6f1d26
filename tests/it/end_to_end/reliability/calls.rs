//! Panics, hangs and errors of calls, with the default settings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kooper::CancellationToken;
use kooper::prelude::*;
use kooper::testing::Cluster;

use super::*;

/// Outcome of a call, by the number in the object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Panic,
    Hang,
    Error,
    None,
}

impl Trouble {
    /// Of 20 objects 10 panic, one hangs, 2 fail and 7 have no trouble.
    fn of(number: u64) -> Self {
        match number % 20 {
            0..10 => Self::Panic,
            10 => Self::Hang,
            11..13 => Self::Error,
            _ => Self::None,
        }
    }
}

/// Number of calls for each object without trouble, and with it.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, (u32, u32)>>>);

impl Calls {
    /// Counts a call; its first call for an object has trouble.
    fn begin(&self, name: &str) -> Trouble {
        // The ConfigMaps of the server itself have no trouble.
        let number = name.trim_start_matches('c').parse().unwrap_or(19);
        let mut calls = self.0.lock();
        let (good, bad) = calls.entry(name.to_owned()).or_default();
        let trouble = if *bad == 0 { Trouble::of(number) } else { Trouble::None };
        *(if trouble == Trouble::None { good } else { bad }) += 1;
        trouble
    }

    fn handled(&self) -> BTreeSet<String> {
        let calls = self.0.lock();
        calls.iter().filter(|(_, (good, _))| *good > 0).map(|(name, _)| name.clone()).collect()
    }

    fn troubles(&self) -> usize {
        self.0.lock().values().filter(|(_, bad)| *bad > 0).count()
    }
}

async fn survive(config: Arc<ConfigMap>, calls: State<Calls>) -> Result<()> {
    match calls.begin(&config.name_any()) {
        Trouble::Panic => panic!("as the test requests"),
        Trouble::Hang => std::future::pending().await,
        Trouble::Error => Err("as the test requests".into()),
        Trouble::None => Ok(()),
    }
}

#[test]
fn panics_hangs_and_errors_end_nothing_and_hold_up_no_other_object() {
    let number = objects(200);
    paused(async move {
        let cluster = Cluster::start().await.unwrap();
        let calls = Calls::default();
        let builder = Controller::builder::<ConfigMap>("survivor").fields("metadata.namespace=default").resync(None);
        let running = cluster.run([builder.state(calls.clone()).handler(survive).build().unwrap()]).await.unwrap();
        let names: BTreeSet<_> = (0..number).map(|number| format!("c{number}")).collect();
        for name in &names {
            cluster.create(&config(name)).await.unwrap();
        }
        let all = || names.is_subset(&calls.handled());
        let begun = tokio::time::Instant::now();
        while !all() {
            assert!(begun.elapsed() < Duration::from_secs(30 * 86_400), "{:?}", names.difference(&calls.handled()));
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(
            calls.troubles() as u64,
            names.iter().filter(|name| { Trouble::of(name[1..].parse().unwrap()) != Trouble::None }).count() as u64
        );
        assert_eq!(running.problem(), None);
        running.stop().await.unwrap();
    });
}

/// Each of these blocks one of the runtime's threads for a moment: a paused clock would not help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_block_their_thread_end_nothing_and_hold_up_no_other_object() {
    let cluster = Cluster::start().await.unwrap().with_timeout(Duration::from_secs(120));
    let handled = Arc::new(Mutex::new(BTreeSet::<String>::new()));
    let block = async |config: Arc<ConfigMap>, seen: State<Arc<Mutex<BTreeSet<String>>>>| {
        if config.name_any().starts_with("blocking") {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        seen.lock().insert(config.name_any());
    };
    let builder = Controller::builder::<ConfigMap>("blocked").fields("metadata.namespace=default").resync(None);
    let running = cluster.run([builder.state(handled.clone()).handler(block).build().unwrap()]).await.unwrap();
    let mut names = BTreeSet::new();
    for number in 0..100 {
        for kind in ["blocking", "other"] {
            let name = format!("{kind}-{number}");
            cluster.create(&config(&name)).await.unwrap();
            names.insert(name);
        }
    }
    eventually("all are handled", || names.is_subset(&handled.lock())).await;
    assert_eq!(running.problem(), None);
    running.stop().await.unwrap();
}

/// The functions share the watch with the handler, and the runtime has one thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn filters_and_map_functions_that_block_their_threads_stop_neither_another_controller_nor_the_end() {
    let cluster = Cluster::start().await.unwrap().with_timeout(Duration::from_secs(120));
    let (blocked, released) = (Arc::<Mutex<BTreeSet<_>>>::default(), CancellationToken::new());
    let block = |function: &'static str| {
        let (blocked, released) = (blocked.clone(), released.clone());
        move || {
            blocked.lock().insert(function);
            // Not for ever, so that the test also fails where this blocks everything.
            let begun = std::time::Instant::now();
            while !released.is_cancelled() && begun.elapsed() < Duration::from_secs(180) {
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
    };
    let (in_filter, in_map) = (block("filter"), block("map"));
    let filtered = Controller::builder::<ConfigMap>("filtered").resync(None).when(move |_| {
        in_filter();
        true
    });
    let mapped = Controller::builder::<Secret>("mapped").resync(None).watches(move |_: &ConfigMap| {
        in_map();
        Vec::<ObjectKey>::new()
    });
    let seen = HandledStates::default();
    let controllers = [
        filtered.handler(async || {}).build().unwrap(),
        mapped.handler(async || {}).build().unwrap(),
        seen.controller(),
    ];
    let running = cluster.run(controllers).await.unwrap();
    eventually("both block", || blocked.lock().len() == 2).await;
    for number in 0..100 {
        cluster.create(&config(&format!("c{number}"))).await.unwrap();
    }
    eventually("all are handled", || (0..100).all(|n| seen.handled().contains_key(&format!("default/c{n}")))).await;
    running.stop().await.unwrap();
    assert!(!released.is_cancelled(), "it has ended while both still block");
    released.cancel();
}
