//! Reports what became of a call: to the queue, the metrics, the log, and on
//! the object.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Ended, Failure, Part};
use super::{Job, Workers};
use crate::call::events::Note;
use crate::error::RetryHint;
use crate::metrics::Counter;
use crate::object::DecodeError;
use crate::object::key::ObjectKey;
use crate::queue::{Outcome, Returned, Ticket};

impl Workers {
    /// Reports what became of a call.
    pub(super) fn finish(&self, job: &Job, ended: &Ended) {
        let took = job.started.elapsed();
        let retried = match ended {
            Ok(None) => return self.gone(&job.key, job.ticket, job.started),
            Ok(Some(action)) => {
                let recovered = self.failing.forget(&job.key);
                let released = self.give_back(job.ticket, Outcome::Success(action.delay())).released;
                self.metrics
                    .count(&self.name, if action.delay().is_some() { Counter::RequeueAfter } else { Counter::Success });
                job.span.in_scope(|| {
                    tracing::debug!(key = %job.key, ?took, "done");
                    if released > 0 {
                        tracing::info!(key = %job.key, "the permission that was missing is granted: {released} other objects are retried");
                    }
                    if let Some(failures) = recovered {
                        let (calls, lasted) = (failures.calls, rounded(failures.lasted()));
                        tracing::info!(key = %job.key, "it succeeds again after {calls} failed calls in {lasted}");
                    }
                });
                false
            }
            Err(failure) => self.fail(job, failure),
        };
        let success = ended.is_ok() || (retried && self.retried_is_success);
        self.metrics.observe_processing_duration(&self.name, success, took);
        self.metrics.observe_work_duration(&self.name, took);
    }

    fn fail(&self, job: &Job, failure: &Failure) -> bool {
        let hint = failure.retry_hint();
        let outcome = match hint {
            RetryHint::Backoff => failure.missing_permission().map_or(Outcome::Failure, Outcome::Forbidden),
            RetryHint::After(delay) => Outcome::FailureAfter(delay),
            RetryHint::Pause(delay) => Outcome::Paused(delay),
            RetryHint::Never => Outcome::FailureForGood,
        };
        self.failing.note(&job.key, matches!(failure, Failure::Decode(_)));
        let returned = self.give_back(job.ticket, outcome);
        self.metrics.count(&self.name, Counter::Error);
        match failure {
            Failure::Decode(_) => self.metrics.count(&self.name, Counter::DecodeError),
            Failure::Panic(_) => self.metrics.count(&self.name, Counter::Panic),
            Failure::Timeout(_) => self.metrics.count(&self.name, Counter::Timeout),
            Failure::Handler(_) | Failure::Finalizer(_) | Failure::Stopped => {}
        }
        if hint == RetryHint::Never {
            self.metrics.count(&self.name, Counter::TerminalError);
        }
        if returned.retried {
            self.metrics.inc_event_queued(&self.name, true);
            self.metrics.count(&self.name, Counter::Retry);
        }
        let text = match failure {
            Failure::Stopped => failure.of(job.part),
            _ => format!("{}; {}", failure.of(job.part), next_run(returned)),
        };
        job.span.in_scope(|| match failure {
            Failure::Decode(_) | Failure::Panic(_) => tracing::error!(key = %job.key, "{text}"),
            _ => tracing::warn!(key = %job.key, attempt = job.attempt, "{text}"),
        });
        // As OpenTelemetry marks what failed.
        job.span.record("otel.status_code", "ERROR");
        match (failure, job.part) {
            (Failure::Stopped, _) => {}
            (Failure::Decode(error), _) => self.record_undecodable(&job.key, error),
            (_, Part::Cleanup) => self.record_cleanup(&job.key, failure),
            _ => {}
        }
        returned.retried
    }

    /// Records on an object that the controller's type does not fit it.
    fn record_undecodable(&self, key: &ObjectKey, error: &DecodeError) {
        let name = &self.name;
        // Without its cleanup it is never deleted.
        let held = self.object(key).and_then(|object| {
            let finalizers = self.finalizers.as_ref().filter(|finalizers| finalizers.are_on_object(&object))?;
            Some(format!(" It is deleted only after it is corrected, or the finalizer {} is removed.", finalizers.own))
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
        let (name, why) = (&self.name, failure.of(Part::Cleanup));
        let message = format!("{why}. The object is deleted only after the controller {name} has cleaned up.");
        self.warn(key, "CleanupFailed", "CleanUp", message);
    }

    /// Records a Warning Event on an object.
    fn warn(&self, key: &ObjectKey, reason: &str, action: &str, message: String) {
        let Some(object) = self.object(key).filter(|_| self.records_events) else { return };
        self.backing.events.publish(Note {
            regarding: self.backing.reference(&object),
            related: None,
            warning: true,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message,
        });
    }

    /// The object is gone: counted as Kooper for Go does, though there is
    /// nothing to hand to a handler.
    pub(super) fn gone(&self, key: &ObjectKey, ticket: Ticket, started: Instant) {
        self.failing.forget(key);
        self.give_back(ticket, Outcome::Gone);
        self.metrics.observe_processing_duration(&self.name, true, started.elapsed());
    }
}

/// When a failed key is tried again.
fn next_run(Returned { retried, next, barred, .. }: Returned) -> String {
    match next {
        Some(next) if barred => format!(
            "one of the objects that lack the permission is tried in {}, this one follows when that succeeds",
            rounded(next)
        ),
        Some(Duration::ZERO) => "it is called again at once".to_owned(),
        Some(next) if retried => format!("it is retried in {}", rounded(next)),
        Some(next) => format!("it waits for the object's next change or its resync in {}", rounded(next)),
        None => "it waits for the object's next change".to_owned(),
    }
}

/// A duration as people read it: milliseconds below ten seconds, else seconds.
fn rounded(duration: Duration) -> String {
    let unit = if duration < Duration::from_secs(10) { 1 } else { 1_000 };
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    kooper_grammar::duration::format(Duration::from_millis(millis / unit * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_behind_others_that_lack_the_permission_is_promised_no_retry_of_its_own() {
        let next = Some(Duration::from_secs(30));
        let returned = Returned { retried: true, next, ..Returned::default() };
        assert_eq!(next_run(returned), "it is retried in 30s");
        let behind = next_run(Returned { barred: true, ..returned });
        assert_eq!(
            behind,
            "one of the objects that lack the permission is tried in 30s, this one follows when that succeeds"
        );
    }
}
