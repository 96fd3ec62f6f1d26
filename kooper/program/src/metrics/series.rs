//! The counters and histograms.

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::table::{self, Metric};
use super::{Counter, WatchFault, families};

/// Kooper's buckets for the time in the queue.
pub(super) const IN_QUEUE_BUCKETS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0, 10.0, 20.0, 60.0, 150.0, 300.0];

/// Kooper's buckets for the time of a call: Prometheus' own defaults.
pub(super) const PROCESSING_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// client-go's buckets for work queues: powers of ten from 10 ns to 1 000 s.
const WORK_QUEUE_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

/// controller-runtime's buckets for the time of a reconciliation.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

/// The values of the label `result`.
const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];

families! {
    /// Every counter and histogram.
    Series(in_queue: Vec<f64>, processing: Vec<f64>) {
        // Kooper's
        queued: IntCounterVec = counter(&table::QUEUED_EVENTS);
        in_queue: HistogramVec = histogram(&table::IN_QUEUE, in_queue);
        processed: HistogramVec = histogram(&table::PROCESSED, processing);
        // controller-runtime's
        results: IntCounterVec = counter(&table::RECONCILES);
        errors: IntCounterVec = counter(&table::RECONCILE_ERRORS);
        terminal_errors: IntCounterVec = counter(&table::TERMINAL_ERRORS);
        panics: IntCounterVec = counter(&table::PANICS);
        timeouts: IntCounterVec = counter(&table::TIMEOUTS);
        reconcile_time: HistogramVec = histogram(&table::RECONCILE_TIME, RECONCILE_BUCKETS.to_vec());
        // client-go's
        adds: IntCounterVec = counter(&table::ADDS);
        retries: IntCounterVec = counter(&table::RETRIES);
        queue_duration: HistogramVec = histogram(&table::QUEUE_DURATION, WORK_QUEUE_BUCKETS.to_vec());
        work_duration: HistogramVec = histogram(&table::WORK_DURATION, WORK_QUEUE_BUCKETS.to_vec());
        requests: IntCounterVec = counter(&table::REQUESTS);
        // our own
        handler_timeouts: IntCounterVec = counter(&table::HANDLER_TIMEOUTS);
        relists: IntCounterVec = counter(&table::RELISTS);
        watch_errors: IntCounterVec = counter(&table::WATCH_ERRORS);
        decode_errors: IntCounterVec = counter(&table::DECODE_ERRORS);
        restores: IntCounterVec = counter(&table::RESTORES);
        abandoned: IntCounterVec = counter(&table::ABANDONED);
        leader_transitions: IntCounterVec = counter(&table::LEADER_TRANSITIONS);
        shards_gained: IntCounterVec = counter(&table::SHARDS_GAINED);
        shard_objects_dropped: IntCounterVec = counter(&table::SHARD_OBJECTS_DROPPED);
        shard_handovers: HistogramVec = histogram(&table::SHARD_HANDOVERS, PROCESSING_BUCKETS.to_vec());
        lease_renewals: HistogramVec = histogram(&table::LEASE_RENEWALS, PROCESSING_BUCKETS.to_vec());
        events_dropped: IntCounterVec = counter(&table::EVENTS_DROPPED);
    }
}

impl Series {
    /// Creates the counters of a controller with 0, so that a rate includes the
    /// first event.
    pub(super) fn begin(&self, controller: &str) {
        for value in ["false", "true"] {
            self.queued.with_label_values(&[controller, value]);
            self.processed.with_label_values(&[controller, value]);
        }
        for result in RESULTS {
            self.results.with_label_values(&[controller, result]);
        }
        for counter in [
            &self.errors,
            &self.terminal_errors,
            &self.panics,
            &self.timeouts,
            &self.handler_timeouts,
            &self.relists,
            &self.decode_errors,
            &self.restores,
            &self.abandoned,
            &self.leader_transitions,
            &self.shards_gained,
            &self.shard_objects_dropped,
            &self.events_dropped,
        ] {
            counter.with_label_values(&[controller]);
        }
        for fault in WatchFault::ALL {
            self.watch_errors.with_label_values(&[controller, fault.label()]);
        }
        self.adds.with_label_values(&[controller, controller]);
        self.retries.with_label_values(&[controller, controller]);
        self.in_queue.with_label_values(&[controller]);
        self.reconcile_time.with_label_values(&[controller]);
        self.lease_renewals.with_label_values(&[controller]);
        self.shard_handovers.with_label_values(&[controller]);
        self.queue_duration.with_label_values(&[controller, controller]);
        self.work_duration.with_label_values(&[controller, controller]);
    }

    pub(super) fn count(&self, controller: &str, counter: Counter) {
        let result = |result| self.results.with_label_values(&[controller, result]).inc();
        let of = |counter: &IntCounterVec| counter.with_label_values(&[controller]).inc();
        let of_queue = |counter: &IntCounterVec| counter.with_label_values(&[controller, controller]).inc();
        match counter {
            Counter::Success => result("success"),
            Counter::Error => {
                result("error");
                of(&self.errors);
            }
            Counter::Requeue => result("requeue"),
            Counter::RequeueAfter => result("requeue_after"),
            Counter::TerminalError => of(&self.terminal_errors),
            Counter::Panic => of(&self.panics),
            Counter::Timeout => {
                of(&self.timeouts);
                of(&self.handler_timeouts);
            }
            Counter::Add => of_queue(&self.adds),
            Counter::Retry => of_queue(&self.retries),
            Counter::Relist => of(&self.relists),
            Counter::WatchError(fault) => self.watch_errors.with_label_values(&[controller, fault.label()]).inc(),
            Counter::DecodeError => of(&self.decode_errors),
            Counter::Restore => of(&self.restores),
            Counter::Abandoned => of(&self.abandoned),
            Counter::LeaderTransition => of(&self.leader_transitions),
            Counter::ShardGained => of(&self.shards_gained),
            Counter::ShardObjectDropped => of(&self.shard_objects_dropped),
            Counter::EventDropped => of(&self.events_dropped),
            // The runtime is pinned, so there is none.
            other => debug_assert!(false, "{other:?} has no metric"),
        }
    }
}

fn counter(metric: &Metric) -> prometheus::Result<IntCounterVec> {
    IntCounterVec::new(Opts::new(metric.name, metric.help), metric.labels)
}

fn histogram(metric: &Metric, buckets: Vec<f64>) -> prometheus::Result<HistogramVec> {
    HistogramVec::new(HistogramOpts::new(metric.name, metric.help).buckets(buckets), metric.labels)
}
