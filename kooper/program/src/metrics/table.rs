//! All metrics in one table: the registry, the dashboard, the alerts and the page of
//! the reference are made from it, or compared with it.

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// The name in Prometheus, such as `workqueue_depth`.
    pub name: &'static str,
    /// The type in Prometheus.
    pub kind: MetricKind,
    /// The help text in Prometheus.
    pub help: &'static str,
    /// The names of the labels, in the order in which their values are given.
    pub labels: &'static [&'static str],
    /// The unit of the values.
    pub unit: Unit,
}

/// The type of a metric in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A total that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// Observations, counted in buckets.
    Histogram,
}

/// The unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Calls, keys, objects and the like.
    Number,
    /// Seconds, with fractions.
    Seconds,
    /// Bytes of memory.
    Bytes,
}

/// Declares each metric as a static, and all of them as a list.
macro_rules! metrics {
    ($($id:ident: $kind:ident of $unit:ident, $name:literal [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = concat!("The metric `", $name, "`.")]
            pub static $id: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                help: $help,
                labels: &[$($label),*],
                unit: Unit::$unit,
            };
        )*

        /// Every metric.
        pub static ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    // Kooper for Go
    QUEUED_EVENTS: Counter of Number, "kooper_controller_queued_events_total" ["controller", "requeue"],
        "Total number of events queued.";
    IN_QUEUE: Histogram of Seconds, "kooper_controller_event_in_queue_duration_seconds" ["controller"],
        "The duration of an event in the queue.";
    PROCESSED: Histogram of Seconds, "kooper_controller_processed_event_duration_seconds" ["controller", "success"],
        "The duration for an event to be processed.";
    QUEUE_LENGTH: Gauge of Number, "kooper_controller_event_queue_length" ["controller"],
        "Length of the controller resource queue.";

    // controller-runtime
    RECONCILES: Counter of Number, "controller_runtime_reconcile_total" ["controller", "result"],
        "Handler calls, by result.";
    RECONCILE_ERRORS: Counter of Number, "controller_runtime_reconcile_errors_total" ["controller"],
        "Handler calls that failed.";
    TERMINAL_ERRORS: Counter of Number, "controller_runtime_terminal_reconcile_errors_total" ["controller"],
        "Handler calls that failed with an error that is not retried.";
    PANICS: Counter of Number, "controller_runtime_reconcile_panics_total" ["controller"],
        "Handler calls that panicked.";
    TIMEOUTS: Counter of Number, "controller_runtime_reconcile_timeouts_total" ["controller"],
        "Handler calls that exceeded the timeout.";
    RECONCILE_TIME: Histogram of Seconds, "controller_runtime_reconcile_time_seconds" ["controller"],
        "The duration of handler calls.";
    ACTIVE_WORKERS: Gauge of Number, "controller_runtime_active_workers" ["controller"],
        "Handler calls that are running.";
    MAX_WORKERS: Gauge of Number, "controller_runtime_max_concurrent_reconciles" ["controller"],
        "The maximum number of handler calls that can run at the same time.";

    WEBHOOK_REQUESTS: Counter of Number, "controller_runtime_webhook_requests_total" ["webhook", "code"],
        "Requests to webhooks, by the HTTP status of the response.";
    WEBHOOK_LATENCY: Histogram of Seconds, "controller_runtime_webhook_latency_seconds" ["webhook"],
        "How long requests to webhooks take, in seconds.";
    WEBHOOK_IN_FLIGHT: Gauge of Number, "controller_runtime_webhook_requests_in_flight" ["webhook"],
        "Requests that are being answered.";
    WEBHOOK_PANICS: Counter of Number, "controller_runtime_webhook_panics_total" [],
        "Calls of webhooks' functions that panicked.";

    // client-go
    ADDS: Counter of Number, "workqueue_adds_total" ["name", "controller"],
        "Keys that were added to the work queue.";
    RETRIES: Counter of Number, "workqueue_retries_total" ["name", "controller"],
        "Keys that were added to the work queue again after a failure.";
    DEPTH: Gauge of Number, "workqueue_depth" ["name", "controller"],
        "Keys that wait in the work queue.";
    QUEUE_DURATION: Histogram of Seconds, "workqueue_queue_duration_seconds" ["name", "controller"],
        "The time that keys waited in the work queue before a worker took them.";
    WORK_DURATION: Histogram of Seconds, "workqueue_work_duration_seconds" ["name", "controller"],
        "The time that workers were busy with keys of the work queue.";
    UNFINISHED_WORK: Gauge of Seconds, "workqueue_unfinished_work_seconds" ["name", "controller"],
        "Total seconds that the running handler calls have taken so far; it keeps increasing if calls are stuck.";
    LONGEST_RUNNING: Gauge of Seconds, "workqueue_longest_running_processor_seconds" ["name", "controller"],
        "Seconds that the oldest running handler call has taken so far.";
    LEADER: Gauge of Number, "leader_election_master_status" ["name"],
        "1 if this process is the leader, 0 for a standby; the name is that of the Lease.";
    REQUESTS: Counter of Number, "rest_client_requests_total" ["code", "method", "host"],
        "Requests to the API server, by status code, method and host; the code is <error> if there was no response.";

    // Kooper's own
    FAILING_KEYS: Gauge of Number, "kooper_failing_keys" ["controller"],
        "Keys whose last handler call failed.";
    STORE_OBJECTS: Gauge of Number, "kooper_store_objects" ["controller"],
        "Objects in the store.";
    STORE_BYTES: Gauge of Bytes, "kooper_store_bytes" ["controller"],
        "The size of the objects in the store, without those that hold secrets.";
    WATCH_AGE: Gauge of Seconds, "kooper_watch_last_heard_seconds" ["controller", "watch"],
        "Seconds since the watch last received an event or a bookmark.";
    RELISTS: Counter of Number, "kooper_relists_total" ["controller"],
        "How often a watch had to list again.";
    WATCH_ERRORS: Counter of Number, "kooper_watch_errors_total" ["controller", "reason"],
        "List and watch requests that failed, by reason.";
    RESTORES: Counter of Number, "kooper_restores_total" ["controller"],
        "Lists accepted with a lower version than the last one, as after the server was restored from a backup.";
    ABANDONED: Counter of Number, "kooper_abandoned_total" ["controller"],
        "Objects that no longer match the selector but keep the finalizer, and are not handled any more.";
    DECODE_ERRORS: Counter of Number, "kooper_decode_errors_total" ["controller"],
        "Objects that could not be decoded.";
    EVENTS_DROPPED: Counter of Number, "kooper_events_dropped_total" ["controller"],
        "Kubernetes Events that were not written.";
    HANDLER_TIMEOUTS: Counter of Number, "kooper_handler_timeouts_total" ["controller"],
        "Handler calls that exceeded the timeout.";
    LEADER_TRANSITIONS: Counter of Number, "kooper_leader_transitions_total" ["controller"],
        "How often this process became the leader.";
    LEASE_RENEWALS: Histogram of Seconds, "kooper_lease_renew_duration_seconds" ["controller"],
        "The duration of writes of the leader's Lease, failed ones included.";
    LEASE_TIME_LEFT: Gauge of Seconds, "kooper_lease_time_left_seconds" ["controller"],
        "Seconds until leadership expires unless the Lease is renewed.";
    SHARDS_OWNED: Gauge of Number, "kooper_shards_owned" ["controller"],
        "The shards that this process works on.";
    SHARDS_UNOWNED: Gauge of Number, "kooper_shards_unowned" ["controller"],
        "The shards that no process owns, or one that has stopped renewing its Lease.";
    SHARDS_GAINED: Counter of Number, "kooper_shards_gained_total" ["controller"],
        "How often this process began to work on a shard.";
    SHARDS_UNOWNED_TIME: Gauge of Seconds, "kooper_shards_unowned_seconds" ["controller"],
        "Seconds for which the first of the unowned shards has been without an owner.";
    SHARD_HANDOVERS: Histogram of Seconds, "kooper_shard_handover_duration_seconds" ["controller"],
        "The time from the last call of a shard until this process gave it away, in which none began.";
    SHARD_OBJECTS_DROPPED: Counter of Number, "kooper_shard_objects_dropped_total" ["controller"],
        "Objects of other processes' shards that were received and dropped.";
    SHARD_SELECTOR: Gauge of Number, "kooper_shard_selector" ["controller", "state"],
        "Watches of the controller's own objects in which the shard selector has this effect.";
    STUCK_CALLS: Gauge of Number, "kooper_stuck_calls" ["controller"],
        "Handler calls that block their thread, or are still running after they were aborted.";
    CHILD_STATE: Gauge of Number, "kooper_child_state" ["controller", "slot", "state"],
        "Objects of which a slot of declared children has this state.";

    WEBHOOK_DENIED: Counter of Number, "kooper_webhook_denied_total" ["webhook"],
        "Requests that a function denied.";
    WEBHOOK_EXPIRY: Gauge of Seconds, "kooper_webhook_certificate_expiry_timestamp_seconds" ["installation", "certificate"],
        "When a certificate of the webhooks expires, in seconds since 1970.";
    WEBHOOK_PROBED: Gauge of Seconds, "kooper_webhook_last_probe_timestamp_seconds" ["installation"],
        "When an API server last reached the webhooks, in seconds since 1970, of the replica that registers them.";

    // The process, in programs with the command line, on Linux
    PROCESS_CPU: Counter of Seconds, "process_cpu_seconds_total" [],
        "The CPU time of the process, in seconds.";
    PROCESS_MEMORY: Gauge of Bytes, "process_resident_memory_bytes" [],
        "The memory of the process that is in RAM.";
    PROCESS_START: Gauge of Seconds, "process_start_time_seconds" [],
        "When the process started, in seconds since 1970.";
    PROCESS_FILES: Gauge of Number, "process_open_fds" [],
        "Open files and sockets of the process.";
    PROCESS_MOST_FILES: Gauge of Number, "process_max_fds" [],
        "The maximum number of files and sockets that the process can open.";
}
