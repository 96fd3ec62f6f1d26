//! The end of a call: what it means for the key, which goes back to the queue.

use std::time::Duration;

use super::Workers;
use crate::call::attempt::{Attempt, CallOutcome, CallResult, Failure, Part};
use crate::call::observer::{EndedCall, Outcome};
use crate::error::RetryHint;
use crate::error::panicking::Panic;
use crate::executor::TaskError;
use crate::object::key::ObjectKey;
use crate::queue::{Completion, Ticket};

/// The result of a call's task.
pub(super) type TaskResult = Result<CallResult, Panic>;

/// The end of a call, by the result of its task. A task that was aborted failed for the reason that it was aborted for. A
/// result after the timeout is ignored, even a success.
pub(super) fn ended_as(ended: Result<TaskResult, TaskError>, aborted: Failure) -> CallResult {
    match ended {
        Ok(Err(panic)) => Err(Failure::Panic(panic)),
        Ok(Ok(_)) if matches!(aborted, Failure::Timeout(_)) => Err(aborted),
        Ok(Ok(ended)) => ended,
        // It panicked while it was dropped.
        Err(TaskError::Panicked(panic)) => Err(Failure::Panic(Panic::elsewhere(&*panic))),
        Err(TaskError::Aborted) => Err(aborted),
    }
}

impl Workers {
    /// Gives the key of a call back, and notifies the observers of its end.
    pub(super) fn finish(&self, attempt: &Attempt, ended: &CallResult) {
        let key = &attempt.key;
        let outcome = match ended {
            Ok(CallOutcome::Gone) => return self.gone(key, attempt.ticket, Some(attempt.started.elapsed())),
            Ok(CallOutcome::Abandoned) => {
                self.observer.each(|one| one.abandoned(attempt));
                return self.gone(key, attempt.ticket, Some(attempt.started.elapsed()));
            }
            Ok(CallOutcome::Unwanted) => {
                self.observer.each(|one| one.ignored(key));
                self.give_back(key, attempt.ticket, Completion::Skipped);
                return;
            }
            Ok(CallOutcome::Done(action)) => Outcome::Success(action.delay()),
            Err(failure) if self.ends_with_deletion(attempt, failure) => Outcome::Deleted(failure),
            Err(failure) if self.is_repeated(attempt, failure) => Outcome::Conflict(failure),
            Err(failure) => Outcome::Failure(failure, failure.retry_hint(key.namespace())),
        };
        match outcome {
            Outcome::Success(_) | Outcome::Deleted(_) => self.grants.admission.ended(key, Ok(())),
            Outcome::Conflict(_) => {}
            Outcome::Failure(failure, _) => self.grants.admission.ended(key, Err(&failure.of(attempt.part))),
        }
        let call = EndedCall { attempt, outcome, took: attempt.started.elapsed() };
        self.observer.each(|one| one.ended(&call));
        let returned = self.give_back(key, attempt.ticket, completion(outcome));
        self.observer.each(|one| one.returned(&call, returned));
    }

    /// Finishes a call that its worker does not wait for. The key of one for `deleted`, or of a daemon that was aborted, is
    /// called `again` after this time.
    pub(super) fn finish_detached(&self, attempt: &Attempt, ended: &CallResult, again: Option<Duration>) {
        if attempt.part == Part::Deleted {
            self.end_deleted(attempt, ended);
        } else if self.daemons.is_some() && ended.as_ref().is_err_and(Failure::is_abort) {
            self.observer.each(|one| one.ignored(&attempt.key));
        } else {
            return self.finish(attempt, ended);
        }
        self.give_back(&attempt.key, attempt.ticket, Completion::Success(again));
    }

    /// Returns `true` if a failed call was the last one for its object, which is being
    /// deleted or was deleted in the meantime. The failure then has no consequence: a
    /// cleanup, or a new object with the same name, has a separate call.
    fn ends_with_deletion(&self, attempt: &Attempt, failure: &Failure) -> bool {
        if failure.is_abort() {
            return false;
        }
        let object =
            self.controller.own.get(&attempt.key).or_else(|| self.functions.unselected.as_ref()?.all.get(&attempt.key));
        let Some(object) = object.filter(|object| object.uid() == &*attempt.uid) else { return true };
        let goes = || object.is_terminating() || failure.is_of_terminating_namespace(attempt.key.namespace());
        attempt.part == Part::Handler && !self.functions.while_deleting && goes()
    }

    /// Returns `true` if a call failed with a conflict and is repeated immediately.
    fn is_repeated(&self, attempt: &Attempt, failure: &Failure) -> bool {
        self.grants.admission.repeats() && failure.is_conflict() && self.controller.queue.repeats(&attempt.key)
    }

    /// Gives back a key without an object, which took this time to find out.
    pub(super) fn gone(&self, key: &ObjectKey, ticket: Ticket, took: Option<Duration>) {
        self.observer.each(|one| one.gone(key, took));
        if let Some(forgotten_finalizers) = &self.functions.forgotten_finalizers {
            forgotten_finalizers.forget(key);
        }
        self.controller.child_observer.owner_gone(key);
        self.give_back(key, ticket, Completion::Gone);
    }
}

/// Converts the outcome of a call to the completion of its key in the queue.
fn completion(outcome: Outcome<'_>) -> Completion {
    match outcome {
        Outcome::Success(requeue) => Completion::Success(requeue),
        // It does not show that a missing permission was granted.
        Outcome::Deleted(_) => Completion::Skipped,
        Outcome::Conflict(_) => Completion::Conflict,
        Outcome::Failure(failure, RetryHint::Backoff) => {
            failure.missing_permission().map_or(Completion::Failure, Completion::Forbidden)
        }
        Outcome::Failure(_, RetryHint::After(delay)) => Completion::FailureAfter(delay),
        Outcome::Failure(_, RetryHint::Pause(delay)) => Completion::Paused(delay),
        Outcome::Failure(_, RetryHint::Never) => Completion::FailureForGood,
    }
}
