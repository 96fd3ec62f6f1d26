//! The gauges, whose values are read at each scrape.

use parking_lot::RwLock;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};

use super::table::{self, Metric};
use super::{Gauge, ReadGauge, families};

families! {
    /// Every gauge, one family for each metric.
    Gauges() {
        // Kooper's
        queue_length: Family = Family::new(&table::QUEUE_LENGTH);
        // client-go's
        depth: Family = Family::new(&table::DEPTH);
        unfinished_work: Family = Family::new(&table::UNFINISHED_WORK);
        longest_running: Family = Family::new(&table::LONGEST_RUNNING);
        leader: Family = Family::new(&table::LEADER);
        // controller-runtime's
        active_workers: Family = Family::new(&table::ACTIVE_WORKERS);
        max_workers: Family = Family::new(&table::MAX_WORKERS);
        // our own
        failing_keys: Family = Family::new(&table::FAILING_KEYS);
        store_objects: Family = Family::new(&table::STORE_OBJECTS);
        store_bytes: Family = Family::new(&table::STORE_BYTES);
        watch_age: Family = Family::new(&table::WATCH_AGE);
        stuck_calls: Family = Family::new(&table::STUCK_CALLS);
        lease_time_left: Family = Family::new(&table::LEASE_TIME_LEFT);
        shards_owned: Family = Family::new(&table::SHARDS_OWNED);
        shards_unowned: Family = Family::new(&table::SHARDS_UNOWNED);
        shards_unowned_time: Family = Family::new(&table::SHARDS_UNOWNED_TIME);
        shard_selector: Family = Family::new(&table::SHARD_SELECTOR);
        child_state: Family = Family::new(&table::CHILD_STATE);
    }
}

impl Gauges {
    /// The number of waiting keys is a metric of Kooper for Go and of client-go.
    pub(super) fn add_queue_length(&self, controller: &str, read: ReadGauge) {
        let read = Arc::new(read);
        let same = Arc::clone(&read);
        self.queue_length.add(&[controller], Box::new(move || read()));
        self.depth.add(&[controller, controller], Box::new(move || same()));
    }

    /// Adds a gauge. Returns `false` if it exists already.
    pub(super) fn add(&self, controller: &str, gauge: &Gauge, read: ReadGauge) -> bool {
        let (one, work_queue) = ([controller], [controller, controller]);
        match gauge {
            Gauge::ActiveWorkers => self.active_workers.add(&one, read),
            Gauge::MaxWorkers => self.max_workers.add(&one, read),
            Gauge::UnfinishedWork => self.unfinished_work.add(&work_queue, read),
            Gauge::LongestRunning => self.longest_running.add(&work_queue, read),
            Gauge::FailingKeys => self.failing_keys.add(&one, read),
            Gauge::StoreObjects => self.store_objects.add(&one, read),
            Gauge::StoreBytes => self.store_bytes.add(&one, read),
            Gauge::WatchAge { watch } => self.watch_age.add(&[controller, watch], read),
            Gauge::StuckCalls => self.stuck_calls.add(&one, read),
            Gauge::Leader { lease } => self.leader.add(&[lease], read),
            Gauge::LeaseTimeLeft => self.lease_time_left.add(&one, read),
            Gauge::ShardsOwned => self.shards_owned.add(&one, read),
            Gauge::ShardsUnowned => self.shards_unowned.add(&one, read),
            Gauge::ShardsUnownedTime => self.shards_unowned_time.add(&one, read),
            Gauge::ShardSelector { state } => self.shard_selector.add(&[controller, state], read),
            Gauge::ChildState { slot, state } => self.child_state.add(&[controller, slot, state], read),
            // The runtime is pinned, so there is none.
            other => {
                debug_assert!(false, "{other:?} has no metric");
                true
            }
        }
    }
}

/// A gauge with labels whose values come from callbacks.
pub(super) struct Family {
    gauges: GaugeVec,
    callbacks: RwLock<Vec<Callback>>,
}

struct Callback {
    labels: Vec<String>,
    gauge: prometheus::Gauge,
    read: ReadGauge,
}

impl Family {
    fn new(metric: &Metric) -> prometheus::Result<Self> {
        let gauges = GaugeVec::new(Opts::new(metric.name, metric.help), metric.labels)?;
        Ok(Self { gauges, callbacks: RwLock::default() })
    }

    /// Adds a callback for the labels. Returns `false` if there is one already, which stays.
    fn add(&self, labels: &[&str], read: ReadGauge) -> bool {
        let mut callbacks = self.callbacks.write();
        if callbacks.iter().any(|callback| callback.labels == labels) {
            return false;
        }
        let gauge = self.gauges.with_label_values(labels);
        callbacks.push(Callback { labels: labels.iter().map(ToString::to_string).collect(), gauge, read });
        true
    }
}

impl Collector for Family {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for callback in &*self.callbacks.read() {
            // A sum of nothing is -0.
            callback.gauge.set((callback.read)() + 0.0);
        }
        self.gauges.collect()
    }
}
