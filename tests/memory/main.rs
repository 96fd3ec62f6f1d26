//! The memory that is left of keys and objects that came and went. The allocator counts, so this is a binary of its own
//! with one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::prelude::*;
use kooper::queue::{Lane, QueueOptions, WorkQueue};
use kooper::retriever::Sender;
use kooper::retriever::channel;
use kooper::{BoxError, CancellationToken, Operator, Reason};
use kooper_tests::allocator::{Counting, live};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A variable of the environment, or its default.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Compares the bytes that live now with those before.
fn assert_same(what: &str, before: usize) {
    let after = live();
    println!("{what}: {before} bytes before, {after} after");
    assert!(after as f64 <= before as f64 * 1.1, "{what}: {before} bytes before, {after} after");
}

/// Lets keys come and go in a queue, all of which are known at the same time.
async fn come_and_go(queue: &WorkQueue, keys: usize) {
    let key = |number: usize| ObjectKey::namespaced("shop", &format!("key-{number}"));
    for number in 0..keys {
        queue.add(&key(number), Lane::Event, Reason::External);
    }
    assert_eq!(queue.len(), keys);
    for number in 0..keys {
        let item = queue.get().await.unwrap();
        // Some fail, some are resynced later, and some are added again meanwhile.
        match number % 3 {
            0 => queue.add_rate_limited(&item),
            1 => queue.done(&item),
            _ => {
                queue.add(&item.key, Lane::Event, Reason::External);
                queue.done(&item);
            }
        }
    }
    for number in 0..keys {
        queue.forget(&key(number));
    }
    while !queue.is_empty() {
        let item = queue.get().await.unwrap();
        queue.done(&item);
        queue.forget(&item.key);
    }
    assert_eq!(queue.known(), 0);
}

fn config(number: usize) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(format!("object-{number}"));
    config.metadata.namespace = Some("shop".to_owned());
    config.metadata.uid = Some(number.to_string());
    config.data = Some([("value".to_owned(), "0".repeat(200))].into());
    config
}

/// Lets objects come and go in a running controller, all of which exist at the same time. A tenth of their calls fails.
async fn exist_and_go(events: &Sender, calls: &AtomicUsize, objects: usize) {
    let before = calls.load(Ordering::SeqCst);
    for number in 0..objects {
        events.add(&config(number)).unwrap();
    }
    while calls.load(Ordering::SeqCst) < before + objects {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for number in 0..objects {
        events.delete(&config(number)).unwrap();
    }
    // Their remaining state ends with the longest timer.
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_and_objects_that_came_and_went_leave_no_memory() {
    let queue = WorkQueue::new(QueueOptions { resync: Some(Duration::from_secs(180)), ..QueueOptions::default() });
    come_and_go(&queue, 1000).await;
    let before = live();
    come_and_go(&queue, number("KOOPER_KEYS", 200_000)).await;
    assert_same("a queue", before);
    drop(queue);

    let (retriever, events) = channel::<ConfigMap>([]).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let handler = move |config: Arc<ConfigMap>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { if config.name_any().ends_with('7') { Err(BoxError::from("not yet")) } else { Ok(()) } }
    };
    let controller = ConfigMap::controller("memory").retriever(retriever).handler(handler).build().unwrap();
    let stop = CancellationToken::new();
    let operator = Operator::builder().controller(controller).build().unwrap();
    let running = tokio::spawn(operator.run(stop.clone()));
    exist_and_go(&events, &calls, 1000).await;
    let before = live();
    exist_and_go(&events, &calls, number("KOOPER_OBJECTS", 30_000)).await;
    assert_same("a controller", before);
    stop.cancel();
    running.await.unwrap().unwrap();
}
