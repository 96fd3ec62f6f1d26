//! Reports the result of a call: to the queue, in the metrics and the log, and
//! on the object.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Ended, Failure, Part};
use super::{Attempt, Busy, Failing, Workers};
use crate::call::events::Note;
use crate::error::RetryHint;
use crate::metrics::{Counter, MetricsRecorder};
use crate::object::DecodeError;
use crate::object::key::ObjectKey;
use crate::queue::{Completion, Returned, Ticket};

/// Where the results of calls are reported.
pub(crate) struct Reporter {
    pub(crate) metrics: Arc<dyn MetricsRecorder>,
    /// The calls that run now, those of an earlier term included.
    pub(crate) busy: Arc<Busy>,
    /// The keys whose last call failed.
    pub(crate) failing: Arc<Failing>,
    /// Whether a failure that is retried counts as a success in the series of
    /// Kooper for Go, as it does there.
    pub(crate) retried_is_success: bool,
    /// Whether the controller may write Kubernetes Events.
    pub(crate) records_events: bool,
}

impl Workers {
    /// Reports the result of a call.
    pub(super) fn finish(&self, attempt: &Attempt, ended: &Ended) {
        let took = attempt.started.elapsed();
        let retried = match ended {
            Ok(None) => return self.gone(&attempt.key, attempt.ticket, attempt.started),
            Ok(Some(action)) => {
                let recovered = self.reporter.failing.forget(&attempt.key);
                let released = self.give_back(attempt.ticket, Completion::Success(action.delay())).released;
                self.reporter.metrics.count(
                    self.name(),
                    if action.delay().is_some() { Counter::RequeueAfter } else { Counter::Success },
                );
                attempt.span.in_scope(|| {
                    tracing::debug!(key = %attempt.key, ?took, "done");
                    if released > 0 {
                        tracing::info!(key = %attempt.key, "the missing permission has been granted: {released} other objects are retried");
                    }
                    if let Some(failures) = recovered {
                        let (calls, lasted) = (failures.calls, rounded(failures.lasted()));
                        tracing::info!(key = %attempt.key, "it succeeds again after {calls} failed calls in {lasted}");
                    }
                });
                false
            }
            Err(failure) => self.fail(attempt, failure),
        };
        let success = ended.is_ok() || (retried && self.reporter.retried_is_success);
        self.reporter.metrics.observe_processing_duration(self.name(), success, took);
        self.reporter.metrics.observe_work_duration(self.name(), took);
    }

    fn fail(&self, attempt: &Attempt, failure: &Failure) -> bool {
        let hint = failure.retry_hint();
        let outcome = match hint {
            RetryHint::Backoff => failure.missing_permission().map_or(Completion::Failure, Completion::Forbidden),
            RetryHint::After(delay) => Completion::FailureAfter(delay),
            RetryHint::Pause(delay) => Completion::Paused(delay),
            RetryHint::Never => Completion::FailureForGood,
        };
        self.reporter.failing.note(&attempt.key, matches!(failure, Failure::Decode(_)));
        let returned = self.give_back(attempt.ticket, outcome);
        self.reporter.metrics.count(self.name(), Counter::Error);
        match failure {
            Failure::Decode(_) => self.reporter.metrics.count(self.name(), Counter::DecodeError),
            Failure::Panic(_) => self.reporter.metrics.count(self.name(), Counter::Panic),
            Failure::Timeout(_) => self.reporter.metrics.count(self.name(), Counter::Timeout),
            Failure::Handler(_) | Failure::Finalizer(_) | Failure::Stopped => {}
        }
        if hint == RetryHint::Never {
            self.reporter.metrics.count(self.name(), Counter::TerminalError);
        }
        if returned.retried {
            self.reporter.metrics.inc_event_queued(self.name(), true);
            self.reporter.metrics.count(self.name(), Counter::Retry);
        }
        let text = match failure {
            Failure::Stopped => failure.of(attempt.part),
            _ => format!("{}; {}", failure.of(attempt.part), next_run(returned)),
        };
        attempt.span.in_scope(|| match failure {
            Failure::Decode(_) | Failure::Panic(_) => tracing::error!(key = %attempt.key, "{text}"),
            _ => tracing::warn!(key = %attempt.key, attempt = attempt.number, "{text}"),
        });
        // OpenTelemetry marks failed spans like this.
        attempt.span.record("otel.status_code", "ERROR");
        match (failure, attempt.part) {
            (Failure::Stopped, _) => {}
            (Failure::Decode(error), _) => self.record_undecodable(&attempt.key, error),
            (_, Part::Cleanup) => self.record_cleanup(&attempt.key, failure),
            _ => {}
        }
        returned.retried
    }

    /// Records on an object that it does not decode as the controller's type.
    fn record_undecodable(&self, key: &ObjectKey, error: &DecodeError) {
        let name = self.name();
        // Without its cleanup the object is never deleted.
        let held = self.object(key).and_then(|object| {
            let finalizers = &self.functions.cleanup.as_ref()?.finalizers;
            finalizers.are_on_object(&object).then(|| {
                format!(" It is deleted only after it is corrected, or the finalizer {} is removed.", finalizers.own)
            })
        });
        let held = held.unwrap_or_default();
        self.warn(
            key,
            "Undecodable",
            "Skip",
            format!("The controller {name} does not handle the object: {error}.{held}"),
        );
    }

    /// Records on an object why it is not deleted.
    fn record_cleanup(&self, key: &ObjectKey, failure: &Failure) {
        let (name, why) = (self.name(), failure.of(Part::Cleanup));
        let message = format!("{why}. The object is deleted only after the controller {name} has cleaned up.");
        self.warn(key, "CleanupFailed", "CleanUp", message);
    }

    /// Records a Warning Event on an object.
    fn warn(&self, key: &ObjectKey, reason: &str, action: &str, message: String) {
        let Some(object) = self.object(key).filter(|_| self.reporter.records_events) else { return };
        self.backing.events.publish(Note {
            regarding: self.backing.reference(&object),
            related: None,
            warning: true,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message,
        });
    }

    /// Handles a key without an object. It counts as a processed key, as in Kooper for Go.
    pub(super) fn gone(&self, key: &ObjectKey, ticket: Ticket, started: Instant) {
        self.reporter.failing.forget(key);
        self.give_back(ticket, Completion::Gone);
        self.reporter.metrics.observe_processing_duration(self.name(), true, started.elapsed());
    }
}

/// When a failed key is retried.
fn next_run(Returned { retried, next, barred, .. }: Returned) -> String {
    match next {
        Some(next) if barred => format!(
            "one of the objects that lack the permission is retried in {}, and this one after that succeeds",
            rounded(next)
        ),
        Some(Duration::ZERO) => "it is called again at once".to_owned(),
        Some(next) if retried => format!("it is retried in {}", rounded(next)),
        Some(next) => format!("it waits for the object's next change or its resync in {}", rounded(next)),
        None => "it waits for the object's next change".to_owned(),
    }
}

/// A duration for people: in milliseconds below ten seconds, else in seconds.
fn rounded(duration: Duration) -> String {
    let unit = if duration < Duration::from_secs(10) { 1 } else { 1_000 };
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    kooper_grammar::duration::format(Duration::from_millis(millis / unit * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_waits_for_another_without_permission_has_no_retry_of_its_own() {
        let next = Some(Duration::from_secs(30));
        let returned = Returned { retried: true, next, ..Returned::default() };
        assert_eq!(next_run(returned), "it is retried in 30s");
        let behind = next_run(Returned { barred: true, ..returned });
        assert_eq!(
            behind,
            "one of the objects that lack the permission is retried in 30s, and this one after that succeeds"
        );
    }
}
