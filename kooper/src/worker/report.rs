//! What became of a call: told to the queue, the metrics and the log.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinError;
use tokio::time::Instant;

use super::{Called, Job, Workers};
use crate::action::Action;
use crate::error::{self, BoxError, Wish};
use crate::events::Note;
use crate::handler::CallError;
use crate::key::ObjectKey;
use crate::metrics::Counter;
use crate::object::DecodeError;
use crate::queue::Outcome;

pub(super) type Ended = Result<Option<Action>, Failure>;

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Failure {
    Handler(BoxError),
    Decode(DecodeError),
    Panic(String),
    Timeout(Duration),
    /// The drain time is over.
    Stopped,
}

impl Workers {
    /// Says what became of a call: to the queue, the metrics and the log.
    pub(super) fn finish(&self, job: &Job, ended: &Ended) {
        let took = job.started.elapsed();
        let retried = match ended {
            Ok(None) => return self.gone(&job.key, job.started),
            Ok(Some(action)) => {
                self.unfit.forget(&job.key);
                self.give_back(&job.key, Outcome::Success(action.delay()));
                self.metrics
                    .count(&self.name, if action.delay().is_some() { Counter::RequeueAfter } else { Counter::Success });
                job.span.in_scope(|| tracing::debug!(key = %job.key, ?took, "done"));
                false
            }
            Err(failure) => self.fail(job, failure),
        };
        let success = ended.is_ok() || (retried && self.retried_is_success);
        self.metrics.observe_processing_duration(&self.name, success, took);
        self.metrics.observe_work_duration(&self.name, took);
    }

    fn fail(&self, job: &Job, failure: &Failure) -> bool {
        let wish = match failure {
            Failure::Handler(error) => error::wish(&**error),
            // The same bytes will not decode next time either.
            Failure::Decode(_) => Wish::Never,
            Failure::Panic(_) | Failure::Timeout(_) | Failure::Stopped => Wish::Retry,
        };
        let outcome = match wish {
            Wish::Retry => Outcome::Failure,
            Wish::After(delay) => Outcome::FailureAfter(delay),
            Wish::Never => Outcome::FailureForGood,
        };
        let retried = self.give_back(&job.key, outcome).retried;
        self.metrics.count(&self.name, Counter::Error);
        match failure {
            Failure::Decode(error) => self.tell_unfit(&job.key, error),
            Failure::Panic(_) => self.metrics.count(&self.name, Counter::Panic),
            Failure::Timeout(_) => self.metrics.count(&self.name, Counter::Timeout),
            Failure::Handler(_) | Failure::Stopped => {}
        }
        if wish == Wish::Never {
            self.metrics.count(&self.name, Counter::TerminalError);
        }
        if retried {
            self.metrics.inc_event_queued(&self.name, true);
            self.metrics.count(&self.name, Counter::Retry);
        }
        let next = if retried { "it is retried" } else { "it waits for the object's next change or resync" };
        job.span.in_scope(|| match failure {
            Failure::Decode(_) | Failure::Panic(_) => tracing::error!(key = %job.key, "{failure}; {next}"),
            _ => tracing::warn!(key = %job.key, attempt = job.attempt, "{failure}; {next}"),
        });
        // As OpenTelemetry marks what failed.
        job.span.record("otel.status_code", "ERROR");
        retried
    }

    /// Tells of an object that the controller's type does not fit.
    fn tell_unfit(&self, key: &ObjectKey, error: &DecodeError) {
        self.metrics.count(&self.name, Counter::DecodeError);
        self.unfit.note(key);
        let Some(object) = self.cache.get(key).filter(|_| self.tells_events) else { return };
        self.backing.events.publish(Note {
            regarding: self.backing.reference(&object),
            related: None,
            warning: true,
            reason: "Undecodable".to_owned(),
            action: "Skip".to_owned(),
            message: format!("The controller {} does not handle the object: {error}.", self.name),
        });
    }

    /// The object is gone: counted as Kooper for Go does, though there is
    /// nothing to hand to a handler.
    pub(super) fn gone(&self, key: &ObjectKey, started: Instant) {
        self.unfit.forget(key);
        self.give_back(key, Outcome::Gone);
        self.metrics.observe_processing_duration(&self.name, true, started.elapsed());
    }
}

/// The end of a call's task; one that was ended failed for the reason that it
/// was ended for. What comes after the timeout is too late, success too.
pub(super) fn ended_as(ended: Result<Called, JoinError>, aborted: Failure) -> Ended {
    match ended {
        Ok(_) if matches!(aborted, Failure::Timeout(_)) => Err(aborted),
        Ok(Ok(action)) => Ok(action),
        Ok(Err(CallError::Handler(error))) => Err(Failure::Handler(error)),
        Ok(Err(CallError::Decode(error))) => Err(Failure::Decode(error)),
        Err(error) => Err(match error.try_into_panic() {
            Ok(panic) => Failure::Panic(error::panic_text(&*panic)),
            Err(_cancelled) => aborted,
        }),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(error) => write!(f, "the handler failed: {}", error::chain(&**error)),
            Self::Decode(error) => write!(f, "{error}: the type of the controller does not fit what the cluster holds"),
            Self::Panic(message) => write!(f, "the handler panicked: {message}"),
            Self::Timeout(limit) => {
                let limit = kooper_grammar::duration::format(*limit);
                write!(f, "the handler took longer than its timeout of {limit} (do less in a call, or raise `timeout`)")
            }
            Self::Stopped => f.write_str("the handler was ended: the drain time is over"),
        }
    }
}
