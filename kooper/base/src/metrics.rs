//! Metrics of controllers.
//!
//! The runtime records into a [`MetricsRecorder`]; [`NoMetrics`] records nothing.

use std::time::Duration;

#[doc(hidden)]
pub mod health;
mod panic_safe;

#[doc(hidden)]
pub use panic_safe::PanicSafe;

/// Reads the value of a gauge. It is called at each scrape, on the scraping
/// thread: it should return quickly, and must not register anything.
pub type ReadGauge = Box<dyn Fn() -> f64 + Send + Sync>;

/// Records measurements of controllers.
///
/// The first four methods are those of Kooper for Go; the others do nothing by
/// default. If a method panics, only its measurement is lost.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use kooper::metrics::{MetricsError, MetricsRecorder, ReadGauge};
///
/// /// Counts the calls that failed.
/// #[derive(Default)]
/// struct Failures(AtomicU64);
///
/// impl MetricsRecorder for Failures {
///     fn inc_event_queued(&self, _controller: &str, _requeue: bool) {}
///
///     fn observe_in_queue_duration(&self, _controller: &str, _waited: Duration) {}
///
///     fn observe_processing_duration(&self, _controller: &str, success: bool, _took: Duration) {
///         self.0.fetch_add(u64::from(!success), Ordering::Relaxed);
///     }
///
///     fn register_queue_length(&self, _controller: &str, _read: ReadGauge) -> Result<(), MetricsError> {
///         Ok(())
///     }
/// }
///
/// let operator = kooper::Operator::builder().metrics(std::sync::Arc::new(Failures::default()));
/// # let _ = operator;
/// ```
pub trait MetricsRecorder: Send + Sync + 'static {
    /// A key was queued by an event, or, with `requeue`, again after a failure.
    fn inc_event_queued(&self, controller: &str, requeue: bool);

    /// The time for which a key waited before a worker took it. Delays such as the
    /// back-off do not count.
    fn observe_in_queue_duration(&self, controller: &str, waited: Duration);

    /// The time that a key was processed, and whether that counts as a success.
    fn observe_processing_duration(&self, controller: &str, success: bool, took: Duration);

    /// A controller starts; `read` returns the number of waiting keys.
    ///
    /// # Errors
    /// If a controller of that name is registered already.
    fn register_queue_length(&self, controller: &str, read: ReadGauge) -> Result<(), MetricsError>;

    /// Increments a counter.
    fn count(&self, controller: &str, counter: Counter) {
        let _ = (controller, counter);
    }

    /// The time that a worker was busy with a key, whatever the result.
    fn observe_work_duration(&self, controller: &str, took: Duration) {
        let _ = (controller, took);
    }

    /// The time that a write of the leader's Lease took, whatever the result.
    fn observe_lease_renewal(&self, controller: &str, took: Duration) {
        let _ = (controller, took);
    }

    /// The time from the last call of a shard until it was given away, in which none began.
    fn observe_shard_handover(&self, controller: &str, took: Duration) {
        let _ = (controller, took);
    }

    /// Registers a value that can be read at any time.
    ///
    /// # Errors
    /// If this gauge of this controller is registered already.
    fn register_gauge(&self, controller: &str, gauge: Gauge, read: ReadGauge) -> Result<(), MetricsError> {
        let _ = (controller, gauge, read);
        Ok(())
    }
}

/// The counters that [`MetricsRecorder::count`] increments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// A handler call succeeded, with nothing more to do.
    Success,
    /// A handler call failed. Terminal errors, panics and timeouts are included.
    Error,
    /// A call met a conflict, because an object had changed since it was read, and is
    /// repeated at once.
    Requeue,
    /// A call succeeded, and its key is queued again after a delay.
    RequeueAfter,
    /// An error that is not retried; counted in addition to [`Counter::Error`].
    TerminalError,
    /// A panic of the handler; counted in addition to [`Counter::Error`].
    Panic,
    /// A call that exceeded the timeout; counted in addition to
    /// [`Counter::Error`].
    Timeout,
    /// A key began to wait for a worker. Several adds of a waiting key count once, and
    /// a delayed one counts when its delay is over.
    Add,
    /// A key was added to the work queue again, after a failure.
    Retry,
    /// A watch had to list again.
    Relist,
    /// A list or watch request failed. It is retried after a delay.
    WatchError(WatchFault),
    /// An object could not be decoded.
    DecodeError,
    /// An object no longer matches the selector but keeps the finalizer; it is not
    /// handled any more.
    Abandoned,
    /// A list was accepted although its version is lower than the last one's:
    /// the server was restored from a backup.
    Restore,
    /// This process became the leader.
    LeaderTransition,
    /// This process works on a shard from now on.
    ShardGained,
    /// An object of another replica's shard was received, and dropped.
    ShardObjectDropped,
    /// A Kubernetes Event was not written: there were too many, or the server
    /// rejected it.
    EventDropped,
}

/// Why a list or watch request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchFault {
    /// The request is forbidden (403).
    Forbidden,
    /// The cluster does not serve the kind (404).
    NotFound,
    /// The credentials were rejected (401).
    Unauthorized,
    /// The server returned another error.
    Server,
    /// The server could not be reached, or its response was invalid.
    Connection,
}

impl WatchFault {
    #[doc(hidden)]
    pub const ALL: [Self; 5] = [Self::Forbidden, Self::NotFound, Self::Unauthorized, Self::Server, Self::Connection];

    /// The value of the label `reason` in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::Server => "server",
            Self::Connection => "connection",
        }
    }
}

/// The gauges that [`MetricsRecorder::register_gauge`] registers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gauge {
    /// Handler calls that are running.
    ActiveWorkers,
    /// The maximum number of handler calls that can run at the same time.
    MaxWorkers,
    /// The time for which all running calls have been running, in seconds.
    UnfinishedWork,
    /// The time for which the oldest running call has been running, in seconds.
    LongestRunning,
    /// Keys whose last handler call failed.
    FailingKeys,
    /// Objects in the store.
    StoreObjects,
    /// The size of the objects in the store, in bytes. Those that hold secrets do not count.
    StoreBytes,
    /// The time since a watch last received an event or a bookmark, in seconds.
    WatchAge {
        /// Which of the controller's watches.
        watch: String,
    },
    /// Calls that are still running after their timeout and cancellation.
    StuckCalls,
    /// 1 while this process is the leader, else 0.
    Leader {
        /// The name of the Lease.
        lease: String,
    },
    /// The time until leadership expires unless the Lease is renewed, in seconds.
    LeaseTimeLeft,
    /// The shards that this process works on.
    ShardsOwned,
    /// The shards that no process owns, or one that has stopped renewing its Lease.
    ShardsUnowned,
    /// The time for which the first of those has been without an owner, in seconds.
    ShardsUnownedTime,
    /// The watches of the controller's own objects in which the shard selector has this effect.
    ShardSelector {
        /// `applied`, `ignored` or `rejected`.
        state: &'static str,
    },
    /// The objects of which a slot of declared children has this state.
    ChildState {
        /// The name of the slot.
        slot: String,
        /// The name of the state.
        state: &'static str,
    },
}

/// Why a recorder could not be built, or a controller or gauge not be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// A controller of that name is registered already.
    #[error("two controllers in one registry are named `{controller}`: rename one of them")]
    DuplicateController {
        /// The name of both.
        controller: String,
    },
    /// The gauge is registered already.
    #[error("the gauge {gauge:?} of the controller `{controller}` is already registered: register each gauge once")]
    DuplicateGauge {
        /// The controller's name.
        controller: String,
        /// The gauge.
        gauge: Gauge,
    },
    /// The buckets of a histogram are invalid.
    #[error("the buckets {buckets:?} are invalid: use finite upper bounds in increasing order, at least one")]
    Buckets {
        /// The buckets as they were passed.
        buckets: Vec<f64>,
    },
    /// The registry rejected the metrics.
    #[error(
        "cannot register the metrics: create one `Prometheus` for each registry, and clone it where you need it again"
    )]
    Registry(#[from] ::prometheus::Error),
}

/// A recorder that records nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMetrics;

impl MetricsRecorder for NoMetrics {
    fn inc_event_queued(&self, _controller: &str, _requeue: bool) {}

    fn observe_in_queue_duration(&self, _controller: &str, _waited: Duration) {}

    fn observe_processing_duration(&self, _controller: &str, _success: bool, _took: Duration) {}

    fn register_queue_length(&self, _controller: &str, _read: ReadGauge) -> Result<(), MetricsError> {
        Ok(())
    }
}
