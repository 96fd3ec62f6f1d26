//! Reports the result of a call: to the queue, in the metrics and the log, and
//! on the object.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failing::{Failures, SameError};
use super::failure::{Ended, Failure, Part};
use super::{Attempt, Busy, Called, Failing, Workers};
use crate::call::events::{FailureEvents, Note, with_tail};
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
    /// How much Events say about failures.
    pub(crate) detail: FailureEvents,
    /// Whether a failure that is retried counts as a success in the series of
    /// Kooper for Go, as it does there.
    pub(crate) retried_is_success: bool,
}

impl Workers {
    /// Reports the result of a call.
    pub(super) fn finish(&self, attempt: &Attempt, ended: &Ended) {
        let took = attempt.started.elapsed();
        let retried = match ended {
            Ok(Called::Gone) => return self.gone(&attempt.key, attempt.ticket, attempt.started),
            Ok(Called::Unwanted) => {
                self.reporter.failing.forget(&attempt.key);
                self.give_back(&attempt.key, attempt.ticket, Completion::Skipped);
                return;
            }
            Ok(Called::Done(action)) => {
                let recovered = self.reporter.failing.forget(&attempt.key);
                // The object is deleted after its cleanup.
                let ends = attempt.part == Part::Cleanup && action.delay().is_none();
                self.admission.ended(&attempt.key, Ok(()));
                let released =
                    self.give_back(&attempt.key, attempt.ticket, Completion::Success(action.delay())).released;
                self.reporter.metrics.count(
                    self.name(),
                    if action.delay().is_some() { Counter::RequeueAfter } else { Counter::Success },
                );
                attempt.span.in_scope(|| {
                    tracing::debug!(key = %attempt.key, ?took, "done");
                    if released > 0 {
                        tracing::info!(key = %attempt.key, "the missing permission has been granted: {released} other objects are retried");
                    }
                    if let Some(failures) = recovered.filter(|_| !ends) {
                        let (calls, lasted) = (failed_calls(failures.calls), rounded(failures.lasted()));
                        tracing::info!(key = %attempt.key, "it succeeds again after {calls} in {lasted}");
                    }
                });
                if let Some(failures) = recovered.filter(|failures| failures.is_reported() && !ends) {
                    self.report_recovery(attempt, failures);
                }
                false
            }
            Err(failure) if self.ends_with_deletion(attempt, failure) => {
                self.end(attempt, failure);
                self.reporter.metrics.observe_processing_duration(self.name(), true, took);
                self.reporter.metrics.observe_work_duration(self.name(), took);
                return;
            }
            Err(failure) => self.fail(attempt, failure),
        };
        let success = ended.is_ok() || (retried && self.reporter.retried_is_success);
        self.reporter.metrics.observe_processing_duration(self.name(), success, took);
        self.reporter.metrics.observe_work_duration(self.name(), took);
    }

    /// Whether a failed call was the last one for its object, which is being deleted or
    /// was deleted meanwhile. Its failure has no consequence then: a cleanup has a call
    /// of its own, and an object of the same name, too.
    fn ends_with_deletion(&self, attempt: &Attempt, failure: &Failure) -> bool {
        if matches!(failure, Failure::Stopped) {
            return false;
        }
        let Some(object) = self.object(&attempt.key).filter(|object| object.uid() == &*attempt.uid) else {
            return true;
        };
        let goes = || object.is_terminating() || failure.is_of_terminating_namespace(attempt.key.namespace());
        attempt.part == Part::Handler && !self.functions.while_deleting && goes()
    }

    /// Ends a failed call as one that succeeded. What the handler has to answer for
    /// itself, a panic and a timeout, is logged and counted.
    fn end(&self, attempt: &Attempt, failure: &Failure) {
        self.reporter.failing.forget(&attempt.key);
        self.admission.ended(&attempt.key, Ok(()));
        self.give_back(&attempt.key, attempt.ticket, Completion::Success(None));
        self.reporter.metrics.count(self.name(), Counter::Success);
        self.count(failure);
        let why = failure.of(attempt.part);
        attempt.span.in_scope(|| match failure {
            Failure::Panic(_) => tracing::error!(key = %attempt.key, "{why}; the object is being deleted"),
            Failure::Timeout(_) => tracing::warn!(key = %attempt.key, "{why}; the object is being deleted"),
            _ => tracing::debug!(key = %attempt.key, "{why}; it is not retried: the object is being deleted"),
        });
    }

    /// Counts a failure by its kind.
    fn count(&self, failure: &Failure) {
        let counter = match failure {
            Failure::Decode(_) => Counter::DecodeError,
            Failure::Panic(_) => Counter::Panic,
            Failure::Timeout(_) => Counter::Timeout,
            Failure::Handler(_) | Failure::Finalizer(_) | Failure::Stopped => return,
        };
        self.reporter.metrics.count(self.name(), counter);
    }

    fn fail(&self, attempt: &Attempt, failure: &Failure) -> bool {
        if self.admission.repeats() && failure.is_conflict() && self.controller.queue.repeats(attempt.ticket) {
            self.give_back(&attempt.key, attempt.ticket, Completion::Conflict);
            self.reporter.metrics.count(self.name(), Counter::Requeue);
            attempt.span.in_scope(|| {
                tracing::debug!(key = %attempt.key, "{}; the call is repeated", failure.of(attempt.part));
            });
            return true;
        }
        let hint = failure.retry_hint(attempt.key.namespace());
        let outcome = match hint {
            RetryHint::Backoff => failure.missing_permission().map_or(Completion::Failure, Completion::Forbidden),
            RetryHint::After(delay) => Completion::FailureAfter(delay),
            RetryHint::Pause(delay) => Completion::Paused(delay),
            RetryHint::Never => Completion::FailureForGood,
        };
        let why = failure.of(attempt.part);
        self.admission.ended(&attempt.key, Err(&why));
        let noted = self.reporter.failing.note(&attempt.key, &why, matches!(failure, Failure::Decode(_)));
        let returned = self.give_back(&attempt.key, attempt.ticket, outcome);
        let gives_up = self.reporter.failing.gives_up(&attempt.key, returned.retried);
        self.reporter.metrics.count(self.name(), Counter::Error);
        self.count(failure);
        if hint == RetryHint::Never {
            self.reporter.metrics.count(self.name(), Counter::TerminalError);
        }
        if returned.retried {
            self.reporter.metrics.inc_event_queued(self.name(), true);
            self.reporter.metrics.count(self.name(), Counter::Retry);
        }
        let text = match failure {
            Failure::Stopped => why.clone(),
            _ => format!("{why}{}; {}", repeated(noted.failures.same()), next_run(returned)),
        };
        attempt.span.in_scope(|| match failure {
            // The last line about this error is enough, unless the key is not retried any more.
            _ if !noted.is_logged && !gives_up => tracing::debug!(key = %attempt.key, "{text}"),
            Failure::Decode(_) | Failure::Panic(_) => tracing::error!(key = %attempt.key, "{text}"),
            _ => tracing::warn!(key = %attempt.key, attempt = attempt.number, "{text}"),
        });
        // OpenTelemetry marks failed spans like this.
        attempt.span.record("otel.status_code", "ERROR");
        match failure {
            Failure::Stopped => {}
            _ if !(gives_up || is_due(noted.failures, returned)) => {}
            Failure::Decode(error) => self.report_undecodable(&attempt.key, error, returned),
            _ => self.report_failure(attempt, &failure.published(attempt.part, self.reporter.detail), returned),
        }
        returned.retried
    }

    /// Reports on an object that it does not decode as the controller's type.
    fn report_undecodable(&self, key: &ObjectKey, error: &DecodeError, returned: Returned) {
        let name = self.name();
        // Without its cleanup the object is never deleted.
        let held = self.object(key).and_then(|object| {
            let finalizers = &self.functions.cleanup.as_ref()?.finalizers;
            finalizers.are_on_object(&object).then(|| {
                format!(" It is deleted only after it is corrected, or the finalizer {} is removed.", finalizers.own)
            })
        });
        let held = held.unwrap_or_default();
        let error = match self.reporter.detail {
            FailureEvents::Off | FailureEvents::Brief => "it does not match the type of the controller".to_owned(),
            FailureEvents::Outermost | FailureEvents::Full => error.to_string(),
        };
        self.warn(
            key,
            "Undecodable",
            "Skip",
            format!("The controller {name} does not handle the object: {error}.{held}"),
            returned,
        );
    }

    /// Reports on an object that its calls keep failing.
    fn report_failure(&self, attempt: &Attempt, why: &str, returned: Returned) {
        let (name, number) = (self.name(), attempt.number);
        let mut tail = format!(". Attempt {number}; {}.", next_run(returned));
        let (reason, action) = match attempt.part {
            Part::Cleanup => {
                tail.push_str(&format!(" The object is deleted only after the controller {name} has cleaned up."));
                ("CleanupFailed", "CleanUp")
            }
            Part::Handler | Part::Deleted => ("ReconcileFailed", "Reconcile"),
        };
        self.warn(&attempt.key, reason, action, with_tail(why, &tail), returned);
    }

    /// Reports on an object that its calls succeed again.
    fn report_recovery(&self, attempt: &Attempt, failures: Failures) {
        let Some(object) = self.object(&attempt.key) else { return };
        let (calls, lasted) = (failed_calls(failures.calls), rounded(failures.lasted()));
        self.controller.events.report(Note {
            regarding: self.controller.reference(&object),
            related: None,
            warning: false,
            reason: "Recovered".to_owned(),
            action: "Reconcile".to_owned(),
            message: format!("The controller {} succeeds again after {calls} in {lasted}.", self.name()),
        });
    }

    /// Reports a Warning Event on an object.
    fn warn(&self, key: &ObjectKey, reason: &str, action: &str, message: String, returned: Returned) {
        let Some(object) = self.object(key).filter(|_| self.controller.events.reports()) else { return };
        self.controller.events.report(Note {
            regarding: self.controller.reference(&object),
            related: None,
            warning: true,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message,
        });
        self.reporter.failing.reported(key, returned.next);
    }

    /// Handles a key without an object. It counts as a processed key, as in Kooper for Go.
    pub(super) fn gone(&self, key: &ObjectKey, ticket: Ticket, started: Instant) {
        self.reporter.failing.forget(key);
        if let Some(unremoved) = &self.functions.unremoved {
            unremoved.forget(key);
        }
        self.controller.forget_owner(key);
        self.give_back(key, ticket, Completion::Gone);
        self.reporter.metrics.observe_processing_duration(self.name(), true, started.elapsed());
    }
}

/// A key that has failed for so long, or whose next call is so far away, is reported on
/// its object. Failures that a retry mends at once are not.
const LASTS: Duration = Duration::from_secs(1);

/// Whether a failure is reported on the object.
fn is_due(failures: Failures, Returned { retried, next, barred, .. }: Returned) -> bool {
    let waits = barred || !retried || next.is_none_or(|next| next >= LASTS);
    failures.is_outdated(next) && (waits || failures.lasted() >= LASTS)
}

/// How often it was the same error, if several times.
fn repeated(same: SameError) -> String {
    match same.calls {
        0 | 1 => String::new(),
        calls => format!(" ({calls} times in {})", rounded(same.lasted())),
    }
}

fn failed_calls(calls: u32) -> String {
    if calls == 1 { "1 failed call".to_owned() } else { format!("{calls} failed calls") }
}

/// When a failed key is retried.
fn next_run(Returned { retried, next, barred, .. }: Returned) -> String {
    match next {
        Some(next) if barred => format!("it waits for the permission; the next try is in {}", rounded(next)),
        Some(Duration::ZERO) => "it is called again at once".to_owned(),
        Some(next) if retried => format!("it is retried in {}", rounded(next)),
        Some(next) => format!("it waits for a change or its resync in {}", rounded(next)),
        None => "it waits for a change".to_owned(),
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
        assert_eq!(behind, "it waits for the permission; the next try is in 30s");
    }
}
