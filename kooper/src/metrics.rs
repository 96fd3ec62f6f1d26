//! What is counted and measured, and who records it.
//!
//! The runtime speaks to a [`MetricsRecorder`]. [`Prometheus`] keeps the
//! series of Kooper for Go, of controller-runtime and of client-go in a
//! registry of the user's; [`NoMetrics`] keeps nothing.

use std::time::Duration;

mod client;
mod gauges;
mod guarded;
pub(crate) mod health;
pub(crate) mod held;
mod recorder;
mod series;
#[cfg(test)]
mod tests;

pub use client::{ClientLayer, CountRequests};
pub(crate) use guarded::Guarded;
pub use recorder::{Prometheus, PrometheusBuilder};

/// Reads a gauge. It is asked at each scrape, on the thread of the scrape: it
/// should be quick, and it must not register anything.
pub type Read = Box<dyn Fn() -> f64 + Send + Sync>;

/// Records what controllers do.
///
/// The first four calls are those of Kooper for Go. The others do nothing
/// unless they are implemented. A call that panics loses its measurement and
/// nothing else.
pub trait MetricsRecorder: Send + Sync + 'static {
    /// A key was queued: by an event, or again (`requeue`) after a failure.
    fn inc_event_queued(&self, controller: &str, requeue: bool);

    /// How long a key was in the queue before a worker took it.
    fn observe_in_queue_duration(&self, controller: &str, waited: Duration);

    /// How long a key was processed, and whether that counts as a success.
    fn observe_processing_duration(&self, controller: &str, success: bool, took: Duration);

    /// A controller begins: `read` tells how many keys are waiting.
    ///
    /// # Errors
    /// When a controller of that name has begun already.
    fn register_queue_length(&self, controller: &str, read: Read) -> Result<(), MetricsError>;

    /// Something happened once more.
    fn count(&self, controller: &str, counter: Counter) {
        let _ = (controller, counter);
    }

    /// How long a worker was busy with a key, whatever came of it.
    fn observe_work_duration(&self, controller: &str, took: Duration) {
        let _ = (controller, took);
    }

    /// How long a write of a leader's Lease took, whatever came of it.
    fn observe_lease_renewal(&self, controller: &str, took: Duration) {
        let _ = (controller, took);
    }

    /// A value that can be read at any time.
    ///
    /// # Errors
    /// When that gauge of that controller is registered already.
    fn register_gauge(&self, controller: &str, gauge: Gauge, read: Read) -> Result<(), MetricsError> {
        let _ = (controller, gauge, read);
        Ok(())
    }
}

/// What [`MetricsRecorder::count`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Counter {
    /// A call of the handler succeeded, with nothing more to do.
    Success,
    /// A call of the handler failed; terminal errors, panics and timeouts are
    /// counted here too.
    Error,
    /// A call succeeded and its key went back into the queue at once.
    Requeue,
    /// A call succeeded and asked to be called again later.
    RequeueAfter,
    /// An error that is not retried, beside [`Counter::Error`].
    TerminalError,
    /// A panic of the handler, beside [`Counter::Error`].
    Panic,
    /// A call that took longer than allowed, beside [`Counter::Error`].
    Timeout,
    /// A worker took a key: adds that came together count once.
    Add,
    /// A key was added to the work queue again, after a failure.
    Retry,
    /// A watch had to list anew.
    Relist,
    /// A list or a watch failed, and is tried again after a pause.
    WatchError(WatchFault),
    /// An object could not be decoded.
    DecodeError,
    /// An object has left the selector and keeps the finalizer: nobody handles
    /// it.
    Abandoned,
    /// A list was accepted although its version is lower than the last one's:
    /// the server was restored from a backup.
    Restore,
    /// This process became the leader.
    LeaderTransition,
    /// A Kubernetes Event was not written: there were too many, or the server
    /// refused it.
    EventDropped,
}

/// Why a list or a watch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchFault {
    /// It is not allowed (403).
    Forbidden,
    /// The cluster does not serve the kind (404).
    NotFound,
    /// The credentials are refused (401).
    Unauthorized,
    /// The server answered with any other error.
    Refused,
    /// The server could not be reached, or what came was no answer.
    Connection,
}

impl WatchFault {
    pub(crate) const ALL: [Self; 5] =
        [Self::Forbidden, Self::NotFound, Self::Unauthorized, Self::Refused, Self::Connection];

    /// As metrics name it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::Refused => "refused",
            Self::Connection => "connection",
        }
    }
}

/// What [`MetricsRecorder::register_gauge`] registers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gauge {
    /// Handlers that run now.
    ActiveWorkers,
    /// Handlers that may run at the same time.
    MaxWorkers,
    /// Seconds of work in all the calls that run now.
    UnfinishedWork,
    /// Seconds since the oldest call that still runs began.
    LongestRunning,
    /// Objects in the store.
    StoreObjects,
    /// Bytes that the objects in the store take.
    StoreBytes,
    /// Seconds since a watch last brought an event or a bookmark.
    WatchAge {
        /// Which of the controller's watches.
        watch: String,
    },
    /// Calls that ran on after their timeout and their cancellation.
    StuckCalls,
    /// 1 while this process leads, else 0.
    Leader {
        /// The name of the Lease.
        lease: String,
    },
    /// Seconds that this process leads at least, unless it renews.
    LeaseTimeLeft,
}

/// Why something could not be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The name is taken.
    #[error("two controllers are called `{controller}` on one registry: give one of them another name")]
    DuplicateController {
        /// The name of both.
        controller: String,
    },
    /// The gauge is taken.
    #[error("the gauge {gauge:?} of the controller `{controller}` is registered already: register each gauge once")]
    DuplicateGauge {
        /// The controller's name.
        controller: String,
        /// The gauge.
        gauge: Gauge,
    },
    /// The buckets of a histogram make no sense.
    #[error("the buckets {buckets:?} are not usable: write finite upper bounds in rising order, at least one")]
    Buckets {
        /// The buckets, as they were given.
        buckets: Vec<f64>,
    },
    /// The registry refuses the series.
    #[error(
        "the registry does not take kooper's series ({0}): make one `Prometheus` for each registry, and clone it where more are needed"
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

    fn register_queue_length(&self, _controller: &str, _read: Read) -> Result<(), MetricsError> {
        Ok(())
    }
}
