//! Benchmark of the work queue: `cargo bench -p kooper-bench --bench queue`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kooper::ObjectKey;
use kooper::Reason;
use kooper::queue::{Lane, QueueOptions, WorkQueue};
use tokio::runtime::{Builder, Runtime};

const KEYS: usize = 10_000;

fn keys() -> Vec<ObjectKey> {
    (0..KEYS).map(|n| ObjectKey::namespaced("default", &format!("object-{n}"))).collect()
}

fn queue(resync: bool) -> WorkQueue {
    WorkQueue::new(QueueOptions {
        resync: resync.then_some(Duration::from_secs(180)),
        retry_rate: (1_000_000_000, 1_000_000),
        ..QueueOptions::default()
    })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Adds every key, takes every key and gives it back.
fn round(runtime: &Runtime, queue: &WorkQueue, keys: &[ObjectKey]) {
    for key in keys {
        queue.add(key, Lane::Event, Reason::Modified);
    }
    runtime.block_on(async {
        for _ in keys {
            let item = queue.get().await.unwrap();
            queue.done(black_box(&item));
        }
    });
}

fn benches(criterion: &mut Criterion) {
    let (keys, runtime) = (keys(), runtime());
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(KEYS as u64));

    for (name, resync) in [("add + get + done", false), ("add + get + done, with resync planned", true)] {
        let queue = queue(resync);
        group.bench_function(name, |bencher| bencher.iter(|| round(&runtime, &queue, &keys)));
    }
    group.bench_function("add of a key that waits", |bencher| {
        let queue = queue(false);
        bencher.iter(|| {
            for key in &keys {
                queue.add(key, Lane::Event, Reason::Modified);
            }
        });
    });
    group.bench_function("a retry planned", |bencher| {
        let taken = || {
            let queue = queue(false);
            for key in &keys {
                queue.add(key, Lane::Event, Reason::Modified);
            }
            let items = runtime.block_on(async {
                let mut items = Vec::with_capacity(KEYS);
                for _ in &keys {
                    items.push(queue.get().await.unwrap());
                }
                items
            });
            (queue, items)
        };
        bencher.iter_batched_ref(
            taken,
            |(queue, items)| {
                for item in items.iter() {
                    queue.add_rate_limited(item);
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(queue_benches, benches);
criterion_main!(queue_benches);
