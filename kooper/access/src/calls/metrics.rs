//! The metrics of calls.

use std::sync::Arc;
use std::time::Duration;

use kooper_runtime::internal::call::attempt::{Attempt, Failure};
use kooper_runtime::internal::call::observer::{CallObserver, EndedCall, Outcome};
use kooper_runtime::internal::error::RetryHint;
use kooper_runtime::internal::queue::NextRun;
use kooper_runtime::metrics::{Counter, MetricsRecorder};
use kooper_runtime::queue::Item;
use kooper_runtime::{ObjectKey, Reason};

/// Counts the calls of one controller, and records their durations.
pub(crate) struct CallMetrics {
    pub(crate) controller: Arc<str>,
    pub(crate) recorder: Arc<dyn MetricsRecorder>,
    /// `true` to count a failure that is retried as a success in the metrics of
    /// Kooper for Go, which does the same.
    pub(crate) retried_is_success: bool,
}

impl CallMetrics {
    fn count(&self, counter: Counter) {
        self.recorder.count(&self.controller, counter);
    }

    /// Records the duration of a call.
    fn took(&self, success: bool, took: Duration) {
        self.recorder.observe_processing_duration(&self.controller, success, took);
        self.recorder.observe_work_duration(&self.controller, took);
    }

    fn count_kind(&self, failure: &Failure) {
        match failure {
            Failure::Decode(_) => self.count(Counter::DecodeError),
            Failure::Panic(_) => self.count(Counter::Panic),
            Failure::Timeout(_) => self.count(Counter::Timeout),
            Failure::Handler(_) | Failure::Finalizer(_) | Failure::Stopped | Failure::Ended | Failure::Changed => {}
        }
    }
}

impl CallObserver for CallMetrics {
    fn taken(&self, item: &Item) {
        self.recorder.observe_in_queue_duration(&self.controller, item.waited);
        if [Reason::Resync, Reason::Requeue].iter().any(|reason| item.reasons.contains(reason)) {
            self.recorder.inc_event_queued(&self.controller, false);
        }
    }

    fn returned(&self, call: &EndedCall<'_>, returned: NextRun) {
        let success = match call.outcome {
            Outcome::Success(requeue) => {
                self.count(if requeue.is_some() { Counter::RequeueAfter } else { Counter::Success });
                true
            }
            Outcome::Deleted(failure) => {
                self.count(Counter::Success);
                self.count_kind(failure);
                true
            }
            Outcome::Conflict(_) => {
                self.count(Counter::Requeue);
                self.retried_is_success
            }
            Outcome::Failure(failure, hint) => {
                self.count(Counter::Error);
                self.count_kind(failure);
                if hint == RetryHint::Never {
                    self.count(Counter::TerminalError);
                }
                if returned.retried {
                    self.recorder.inc_event_queued(&self.controller, true);
                    self.count(Counter::Retry);
                }
                returned.retried && self.retried_is_success
            }
        };
        self.took(success, call.took);
    }

    fn deleted(&self, _: &Attempt, failure: Option<&Failure>, took: Duration) {
        match failure {
            None => self.count(Counter::Success),
            Some(failure) => {
                self.count(Counter::Error);
                self.count_kind(failure);
            }
        }
        self.took(failure.is_none(), took);
    }

    /// It counts as a processed key, as in Kooper for Go, unless a call of `deleted` has counted.
    fn gone(&self, _: &ObjectKey, took: Option<Duration>) {
        if let Some(took) = took {
            self.recorder.observe_processing_duration(&self.controller, true, took);
        }
    }

    fn abandoned(&self, _: &Attempt) {
        self.count(Counter::Abandoned);
    }
}
