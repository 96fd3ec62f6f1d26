//! The gauges, whose values are read at each scrape.

use std::sync::{Arc, PoisonError, RwLock};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts};

use super::{Gauge, ReadGauge};

/// Every gauge, one family for each metric.
pub(super) struct Gauges {
    // Kooper's
    queue_length: Family,
    // client-go's
    depth: Family,
    unfinished_work: Family,
    longest_running: Family,
    leader: Family,
    // controller-runtime's
    active_workers: Family,
    max_workers: Family,
    // our own
    store_objects: Family,
    store_bytes: Family,
    watch_age: Family,
    stuck_calls: Family,
    lease_time_left: Family,
}

impl Gauges {
    pub(super) fn new() -> prometheus::Result<Self> {
        let one = &["controller"];
        let work_queue = &["name", "controller"];
        Ok(Self {
            queue_length: Family::new(
                "kooper_controller_event_queue_length",
                "Length of the controller resource queue.",
                one,
            )?,
            depth: Family::new("workqueue_depth", "Keys that wait in the work queue.", work_queue)?,
            unfinished_work: Family::new(
                "workqueue_unfinished_work_seconds",
                "Seconds for which all running handler calls have been running; it keeps increasing if calls are stuck.",
                work_queue,
            )?,
            longest_running: Family::new(
                "workqueue_longest_running_processor_seconds",
                "Seconds for which the oldest running handler call has been running.",
                work_queue,
            )?,
            leader: Family::new(
                "leader_election_master_status",
                "1 if this process is the leader, 0 for a standby; the name is that of the Lease.",
                &["name"],
            )?,
            active_workers: Family::new("controller_runtime_active_workers", "Handler calls that are running.", one)?,
            max_workers: Family::new(
                "controller_runtime_max_concurrent_reconciles",
                "The most handler calls that can run at the same time.",
                one,
            )?,
            store_objects: Family::new("kooper_store_objects", "Objects in the store.", one)?,
            store_bytes: Family::new("kooper_store_bytes", "The size of the objects in the store.", one)?,
            watch_age: Family::new(
                "kooper_watch_last_heard_seconds",
                "Seconds since the watch last received an event or a bookmark.",
                &["controller", "watch"],
            )?,
            stuck_calls: Family::new(
                "kooper_stuck_calls",
                "Handler calls that are still running after their timeout and cancellation.",
                one,
            )?,
            lease_time_left: Family::new(
                "kooper_lease_time_left_seconds",
                "Seconds until leadership expires unless the Lease is renewed.",
                one,
            )?,
        })
    }

    /// The number of waiting keys is a metric of Kooper for Go and of client-go.
    pub(super) fn add_queue_length(&self, controller: &str, read: ReadGauge) {
        let read = Arc::new(read);
        let same = Arc::clone(&read);
        self.queue_length.add(&[controller], Box::new(move || read()));
        self.depth.add(&[controller, controller], Box::new(move || same()));
    }

    /// Whether the gauge is new.
    pub(super) fn add(&self, controller: &str, gauge: &Gauge, read: ReadGauge) -> bool {
        let (one, work_queue) = ([controller], [controller, controller]);
        match gauge {
            Gauge::ActiveWorkers => self.active_workers.add(&one, read),
            Gauge::MaxWorkers => self.max_workers.add(&one, read),
            Gauge::UnfinishedWork => self.unfinished_work.add(&work_queue, read),
            Gauge::LongestRunning => self.longest_running.add(&work_queue, read),
            Gauge::StoreObjects => self.store_objects.add(&one, read),
            Gauge::StoreBytes => self.store_bytes.add(&one, read),
            Gauge::WatchAge { watch } => self.watch_age.add(&[controller, watch], read),
            Gauge::StuckCalls => self.stuck_calls.add(&one, read),
            Gauge::Leader { lease } => self.leader.add(&[lease], read),
            Gauge::LeaseTimeLeft => self.lease_time_left.add(&one, read),
        }
    }

    pub(super) fn parts(&self) -> [&dyn Collector; 12] {
        [
            &self.queue_length,
            &self.depth,
            &self.unfinished_work,
            &self.longest_running,
            &self.leader,
            &self.active_workers,
            &self.max_workers,
            &self.store_objects,
            &self.store_bytes,
            &self.watch_age,
            &self.stuck_calls,
            &self.lease_time_left,
        ]
    }
}

/// A gauge with labels whose values come from callbacks.
struct Family {
    gauges: GaugeVec,
    callbacks: RwLock<Vec<Callback>>,
}

struct Callback {
    labels: Vec<String>,
    gauge: prometheus::Gauge,
    read: ReadGauge,
}

impl Family {
    fn new(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
        Ok(Self { gauges: GaugeVec::new(Opts::new(name, help), labels)?, callbacks: RwLock::default() })
    }

    /// Whether the labels are new. If not, the first callback stays.
    fn add(&self, labels: &[&str], read: ReadGauge) -> bool {
        let mut callbacks = self.callbacks.write().unwrap_or_else(PoisonError::into_inner);
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
        for callback in &*self.callbacks.read().unwrap_or_else(PoisonError::into_inner) {
            callback.gauge.set((callback.read)());
        }
        self.gauges.collect()
    }
}
