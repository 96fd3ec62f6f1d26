//! Reports how calls end: in the log, and in Events on the objects.

use std::sync::Arc;
use std::time::Duration;

use kooper_runtime::internal::call::attempt::{Attempt, Failure, Part};
use kooper_runtime::internal::call::finalizer::Finalizers;
use kooper_runtime::internal::call::observer::{CallObserver, EndedCall, Outcome};
use kooper_runtime::internal::queue::NextRun;
use kooper_runtime::internal::watch::store::Cache;
use kooper_runtime::object::{DecodeError, Object};
use kooper_runtime::{ControllerContext, FailureEvents, Note, ObjectKey};

use super::failing::{Failing, Failures, SameError};
use crate::events::with_tail;

/// The target of the log lines: users may have set a level for it.
const TARGET: &str = "kooper_runtime::call::observer::reporter";

/// Reports the calls of one controller. An error that repeats is logged now and then,
/// and an Event is recorded once it lasts.
pub(crate) struct Reporter {
    pub(crate) controller: Arc<ControllerContext>,
    /// The keys whose last call failed.
    pub(crate) failing: Arc<Failing>,
    /// The amount of detail in Events about failures.
    pub(crate) detail: FailureEvents,
    /// The finalizers that `cleanup` removes.
    pub(crate) finalizers: Option<Finalizers>,
    /// All objects of the kind, selected or not, if they are watched.
    pub(crate) unselected: Option<Cache>,
}

impl CallObserver for Reporter {
    fn ended(&self, call: &EndedCall<'_>) {
        let (attempt, key) = (call.attempt, &call.attempt.key);
        match call.outcome {
            Outcome::Success(requeue) => {
                // The object is deleted after its cleanup.
                let ends = attempt.part == Part::Cleanup && requeue.is_none();
                let recovered = self.failing.forget(key).filter(|_| !ends);
                attempt.span.in_scope(|| tracing::debug!(target: TARGET, %key, took = ?call.took, "done"));
                if let Some(failures) = recovered {
                    self.report_recovery(attempt, failures);
                }
            }
            Outcome::Deleted(_) => drop(self.failing.forget(key)),
            Outcome::Conflict(_) => {}
            Outcome::Failure(failure, _) => self.failing.note(key, &failure.of(attempt.part)),
        }
    }

    fn returned(&self, call: &EndedCall<'_>, returned: NextRun) {
        let (attempt, key) = (call.attempt, &call.attempt.key);
        let (controller, why) = (self.name(), |failure: &Failure| failure.of(attempt.part));
        attempt.span.in_scope(|| match call.outcome {
            Outcome::Success(_) => report_release(key, returned.released),
            // A panic and a timeout are the handler's own.
            Outcome::Deleted(failure) => match failure {
                Failure::Panic(_) => tracing::error!(target: TARGET, %controller, %key, "{}; the object is being deleted", why(failure)),
                Failure::Timeout(_) => tracing::warn!(target: TARGET, %controller, %key, "{}; the object is being deleted", why(failure)),
                _ => tracing::debug!(target: TARGET, %key, "{}; it is not retried: the object is being deleted", why(failure)),
            },
            Outcome::Conflict(failure) => tracing::debug!(target: TARGET, %key, "{}; the call is repeated", why(failure)),
            Outcome::Failure(failure, _) => self.report(attempt, failure, returned),
        });
    }

    fn deleted(&self, attempt: &Attempt, failure: Option<&Failure>, _: Duration) {
        let Some(failure) = failure else { return };
        let (controller, key, why) = (self.name(), &attempt.key, failure.of(attempt.part));
        attempt.span.in_scope(
            || tracing::error!(target: TARGET, %controller, %key, "{why}; it is not called again for this object"),
        );
        // OpenTelemetry marks failed spans like this.
        attempt.span.record("otel.status_code", "ERROR");
    }

    fn stuck(&self, attempt: &Attempt, failure: &Failure, after: Duration, stuck: usize) {
        let (controller, key, part, why) = (self.name(), &attempt.key, attempt.part, failure.of(attempt.part));
        attempt.span.in_scope(|| {
            tracing::error!(
                target: TARGET, %controller, %key, stuck,
                "{part} has not ended {after:?} after it was cancelled ({why}): it blocks its thread, or never awaits. Its \
                 key is not handled until it ends. Use tokio::task::spawn_blocking for blocking work"
            );
        });
    }

    fn recovered(&self, attempt: &Attempt, released: usize) {
        if let Some(failures) = self.failing.forget(&attempt.key) {
            self.report_recovery(attempt, failures);
        }
        attempt.span.in_scope(|| report_release(&attempt.key, released));
    }

    fn gone(&self, key: &ObjectKey, _: Option<Duration>) {
        self.failing.forget(key);
    }

    fn abandoned(&self, attempt: &Attempt) {
        let (controller, key) = (self.name(), &attempt.key);
        let Some(Finalizers { own, .. }) = &self.finalizers else { return };
        attempt.span.in_scope(|| {
            tracing::warn!(
                target: TARGET, %controller, %key,
                "the object or its namespace no longer matches the selector, and the object keeps the finalizer {own}: it \
                 is not cleaned up until it matches again or is deleted. To clean up such objects at once, set \
                 `on_leave = cleanup`"
            );
        });
        let message = format!(
            "The object or its namespace no longer matches the selector of the controller {controller}. The object keeps \
             the finalizer {own} and is not handled."
        );
        // Another object may have the name by now.
        if let Some(object) = self.object(key).filter(|object| *object.uid() == *attempt.uid) {
            self.controller.report(Note::warning(self.controller.reference(&object), "LeftSelector", "Skip", message));
        }
    }

    fn forgotten_finalizers(&self, object: &Object, finalizer: &str) {
        let (controller, key) = (self.name(), object.key());
        tracing::warn!(
            target: TARGET, %controller, %key,
            "the object is being deleted and keeps the finalizer {finalizer}, which this program has set: write `cleanup = \
             path, finalizer = \"{finalizer}\"`, or `while_deleting` so that the handler is called and can remove it"
        );
        let message = format!(
            "The object is being deleted and keeps the finalizer {finalizer}, which the controller {controller} has set. \
             The controller has neither `cleanup` nor `while_deleting`, so it is not called for objects that are \
             being deleted."
        );
        let regarding = self.controller.reference(object);
        self.controller.report(Note::warning(regarding, "FinalizerNotRemoved", "Skip", message));
    }

    fn paused(&self, object: &Object) {
        let (controller, key) = (self.name(), object.key());
        let (reason, text) = match self.controller.annotations.paused_by(object) {
            Some(_) => ("Paused", self.controller.annotations.explain(controller)),
            None => ("Resumed", format!("it is reconciled by `{controller}` again")),
        };
        tracing::info!(target: TARGET, %controller, %key, "{reason}: {text}");
        let mut note = Note::warning(self.controller.reference(object), reason, "Pause", text);
        note.warning = false;
        self.controller.events.publish(note);
    }

    fn ignored(&self, key: &ObjectKey) {
        self.failing.forget(key);
    }

    fn term_ended(&self) {
        self.failing.clear();
    }
}

impl Reporter {
    /// Reports a failed call.
    fn report(&self, attempt: &Attempt, failure: &Failure, returned: NextRun) {
        let (controller, key, why) = (self.name(), &attempt.key, failure.of(attempt.part));
        let gives_up = self.failing.gives_up(key, returned.retried);
        // `None` if the next call has succeeded already.
        let failures = self.failing.get(key);
        let text = match failure {
            Failure::Stopped | Failure::Ended | Failure::Changed => why,
            _ => {
                let repeated = failures.map(|failures| repeated(failures.same())).unwrap_or_default();
                format!("{why}{repeated}; {}", next_run(returned))
            }
        };
        // Each line names its controller: the level of the log may leave out the span.
        match failure {
            // The last line about this error is enough, unless the key is not retried any more.
            _ if !gives_up && failures.is_some_and(|failures| !failures.is_logged) => {
                tracing::debug!(target: TARGET, %key, "{text}");
            }
            Failure::Decode(_) | Failure::Panic(_) => tracing::error!(target: TARGET, %controller, %key, "{text}"),
            _ => tracing::warn!(target: TARGET, %controller, %key, attempt = attempt.number, "{text}"),
        }
        // OpenTelemetry marks failed spans like this.
        attempt.span.record("otel.status_code", "ERROR");
        let is_due = failures.is_some_and(|failures| is_due(failures, returned));
        match failure {
            Failure::Stopped | Failure::Ended | Failure::Changed => {}
            _ if !(gives_up || is_due) => {}
            Failure::Decode(error) => self.report_undecodable(key, error, returned),
            _ => self.report_failure(attempt, &failure.published(attempt.part, self.detail), returned),
        }
    }

    /// The name of the controller.
    fn name(&self) -> &str {
        &self.controller.controller
    }

    /// The object of a key, selected or not.
    fn object(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.controller.own.get(key).or_else(|| self.unselected.as_ref()?.get(key))
    }

    /// Reports on an object that it does not decode as the controller's type.
    fn report_undecodable(&self, key: &ObjectKey, error: &DecodeError, returned: NextRun) {
        let name = self.name();
        // Without its cleanup the object is never deleted.
        let held = self.object(key).and_then(|object| {
            let finalizers = self.finalizers.as_ref()?;
            finalizers.are_on_object(&object).then(|| {
                format!(" It is deleted only after it is corrected, or the finalizer {} is removed.", finalizers.own)
            })
        });
        let held = held.unwrap_or_default();
        let error = match self.detail {
            FailureEvents::Outermost | FailureEvents::Full => error.to_string(),
            _ => "it does not match the type of the controller".to_owned(),
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
    fn report_failure(&self, attempt: &Attempt, why: &str, returned: NextRun) {
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

    /// Reports on a key that its calls succeed again.
    fn report_recovery(&self, attempt: &Attempt, failures: Failures) {
        let (calls, lasted) = (failed_calls(failures.calls), rounded(failures.duration()));
        attempt.span.in_scope(
            || tracing::info!(target: TARGET, key = %attempt.key, "it succeeds again after {calls} in {lasted}"),
        );
        let Some(object) = self.object(&attempt.key).filter(|_| failures.is_reported()) else { return };
        let message = format!("The controller {} succeeds again after {calls} in {lasted}.", self.name());
        let mut note = Note::warning(self.controller.reference(&object), "Recovered", "Reconcile", message);
        note.warning = false;
        self.controller.report(note);
    }

    /// Reports a Warning Event on an object.
    fn warn(&self, key: &ObjectKey, reason: &str, action: &str, message: String, returned: NextRun) {
        let Some(object) = self.object(key).filter(|_| self.controller.reports) else { return };
        self.controller.report(Note::warning(self.controller.reference(&object), reason, action, message));
        self.failing.reported(key, returned.next);
    }
}

/// A key that has failed for so long, or whose next call is so far away, is reported on
/// its object. Failures that a retry mends at once are not.
const LASTS: Duration = Duration::from_secs(1);

/// Returns whether a failure is reported on the object now.
fn is_due(failures: Failures, NextRun { retried, next, forbidden, .. }: NextRun) -> bool {
    let waits = forbidden || !retried || next.is_none_or(|next| next >= LASTS);
    failures.is_outdated(next) && (waits || failures.duration() >= LASTS)
}

/// Reports that other keys are retried, because one that lacked the same permission has recovered.
fn report_release(key: &ObjectKey, released: usize) {
    if released > 0 {
        tracing::info!(target: TARGET, %key, "the missing permission has been granted: {released} other objects are retried");
    }
}

/// Describes repetitions of the same error, such as ` (3 times in 5s)`; empty if there are
/// none.
fn repeated(same: SameError) -> String {
    match same.calls {
        0 | 1 => String::new(),
        calls => format!(" ({calls} times in {})", rounded(same.duration())),
    }
}

fn failed_calls(calls: u32) -> String {
    if calls == 1 { "1 failed call".to_owned() } else { format!("{calls} failed calls") }
}

/// When a failed key is retried.
fn next_run(NextRun { retried, next, forbidden, .. }: NextRun) -> String {
    match next {
        Some(next) if forbidden => format!("it waits for the permission; the next try is in {}", rounded(next)),
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
        let returned = NextRun { retried: true, next, ..NextRun::default() };
        assert_eq!(next_run(returned), "it is retried in 30s");
        let behind = next_run(NextRun { forbidden: true, ..returned });
        assert_eq!(behind, "it waits for the permission; the next try is in 30s");
    }
}
