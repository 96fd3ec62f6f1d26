//! Catches the panics of a recorder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Counter, Gauge, MetricsError, MetricsRecorder, ReadGauge};
use crate::error::panic_text;

/// Wraps a recorder that may panic. Then the measurement is lost, and the measured
/// code continues.
#[expect(missing_debug_implementations, reason = "other crates of Kooper only pass it on")]
pub struct PanicSafe {
    recorder: Arc<dyn MetricsRecorder>,
    /// `true` once a panic was logged. Only the first one is.
    reported: AtomicBool,
}

impl PanicSafe {
    /// A recorder whose panics are caught.
    pub fn new(recorder: Arc<dyn MetricsRecorder>) -> Self {
        Self { recorder, reported: AtomicBool::new(false) }
    }

    fn record<T>(&self, otherwise: T, record: impl FnOnce(&dyn MetricsRecorder) -> T) -> T {
        catch_unwind(AssertUnwindSafe(|| record(&*self.recorder))).unwrap_or_else(|panic| {
            if !self.reported.swap(true, Ordering::Relaxed) {
                let text = panic_text(&*panic);
                tracing::error!("the metrics recorder panicked: {text}; measurements like this one are lost");
            }
            otherwise
        })
    }
}

impl MetricsRecorder for PanicSafe {
    fn inc_event_queued(&self, controller: &str, requeue: bool) {
        self.record((), |recorder| recorder.inc_event_queued(controller, requeue));
    }

    fn observe_in_queue_duration(&self, controller: &str, waited: Duration) {
        self.record((), |recorder| recorder.observe_in_queue_duration(controller, waited));
    }

    fn observe_processing_duration(&self, controller: &str, success: bool, took: Duration) {
        self.record((), |recorder| recorder.observe_processing_duration(controller, success, took));
    }

    fn register_queue_length(&self, controller: &str, read: ReadGauge) -> Result<(), MetricsError> {
        self.record(Ok(()), |recorder| recorder.register_queue_length(controller, read))
    }

    fn count(&self, controller: &str, counter: Counter) {
        self.record((), |recorder| recorder.count(controller, counter));
    }

    fn observe_work_duration(&self, controller: &str, took: Duration) {
        self.record((), |recorder| recorder.observe_work_duration(controller, took));
    }

    fn observe_lease_renewal(&self, controller: &str, took: Duration) {
        self.record((), |recorder| recorder.observe_lease_renewal(controller, took));
    }

    fn observe_shard_handover(&self, controller: &str, took: Duration) {
        self.record((), |recorder| recorder.observe_shard_handover(controller, took));
    }

    fn register_gauge(&self, controller: &str, gauge: Gauge, read: ReadGauge) -> Result<(), MetricsError> {
        self.record(Ok(()), |recorder| recorder.register_gauge(controller, gauge, read))
    }
}
