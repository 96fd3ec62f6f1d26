//! One call of a key: which function of the controller it calls, and why it failed.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::call::action::Action;
use crate::call::events::FailureEvents;
use crate::error::panicking::Panic;
use crate::error::redaction::redact;
use crate::error::refusal::{ApiStatus, Cause};
use crate::error::{self, BoxError, RetryHint};
use crate::leader::shard::Work;
use crate::object::DecodeError;
use crate::object::key::ObjectKey;
use crate::queue::Ticket;

/// One call of one key, beside its task.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The key of the object.
    pub key: ObjectKey,
    pub(crate) ticket: Ticket,
    /// The function.
    pub part: Part,
    /// The uid of its object.
    pub uid: Arc<str>,
    /// The number of the attempt, from 1.
    pub number: u32,
    pub(crate) started: Instant,
    /// The span in which it is logged.
    pub span: tracing::Span,
    /// Its shard is not given away before it ends.
    #[expect(dead_code, reason = "it is only dropped")]
    pub(crate) work: Option<Work>,
}

pub(crate) type CallResult = Result<CallOutcome, Failure>;

/// The result of a call that did not fail.
pub(crate) enum CallOutcome {
    Done(Action),
    /// There was no object to call a handler with.
    Gone,
    /// The object has left the selector with its finalizer.
    Abandoned,
    /// The filter did not want the object.
    Unwanted,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// The function failed.
    Handler(BoxError),
    /// The finalizer could not be set or removed.
    Finalizer(BoxError),
    /// The object does not match the controller's type.
    Decode(DecodeError),
    /// The function panicked.
    Panic(Panic),
    /// The function took longer than this.
    Timeout(Duration),
    /// The drain time is over.
    Stopped,
    /// The term of its shard or of the leader is over: another replica may work on its object.
    Ended,
    /// It was the call of a daemon, and its object has changed.
    Changed,
}

/// The function that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The handler.
    Handler,
    /// The cleanup before the finalizer is removed.
    Cleanup,
    /// The function for objects that were deleted.
    Deleted,
}

impl Failure {
    /// When the key is retried.
    pub(crate) fn retry_hint(&self, namespace: Option<&str>) -> RetryHint {
        match self {
            Self::Handler(error) | Self::Finalizer(error) => error::retry_hint(&**error, namespace),
            // The same bytes will not decode next time either.
            Self::Decode(_) => RetryHint::Never,
            Self::Panic(_) | Self::Timeout(_) | Self::Stopped | Self::Ended | Self::Changed => RetryHint::Backoff,
        }
    }

    /// The missing permission, if a request was forbidden because of a missing
    /// rule: the same value for all objects that lack it.
    pub(crate) fn missing_permission(&self) -> Option<u64> {
        let refusal = self.refusal(&Cause::MissingRule)?;
        let mut hasher = DefaultHasher::new();
        refusal.permission().hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Returns `true` if a request was rejected because `namespace`, the object's namespace, is
    /// being deleted.
    pub(crate) fn is_of_terminating_namespace(&self, namespace: Option<&str>) -> bool {
        let refusal = self.refusal(&Cause::NamespaceTerminating);
        refusal.zip(namespace).is_some_and(|(refusal, namespace)| refusal.is_about(namespace))
    }

    /// The refusal of a request, if it has this cause.
    fn refusal(&self, cause: &Cause) -> Option<ApiStatus> {
        let (Self::Handler(error) | Self::Finalizer(error)) = self else { return None };
        ApiStatus::behind(&**error).filter(|refusal| refusal.cause == *cause)
    }

    /// Returns `true` if a request failed because an object has changed since it was read. The next
    /// call sees its current state.
    pub(crate) fn is_conflict(&self) -> bool {
        let (Self::Handler(error) | Self::Finalizer(error)) = self else { return false };
        error::is_conflict(&**error)
    }

    /// Returns `true` if the call was aborted for a reason that is not its own.
    pub(crate) fn is_abort(&self) -> bool {
        matches!(self, Self::Stopped | Self::Ended | Self::Changed)
    }

    /// The failure of a call of this function, for the log and for people.
    #[must_use]
    pub fn of(&self, part: Part) -> String {
        self.published(part, FailureEvents::Full)
    }

    /// The failure of a call of this function, for the Event about it: everyone who may
    /// view the object can read it.
    #[must_use]
    pub fn published(&self, part: Part, detail: FailureEvents) -> String {
        match self {
            Self::Handler(error) => match published(error, detail) {
                Some(error) => format!("{part} failed: {error}"),
                None => format!("{part} failed"),
            },
            Self::Finalizer(error) => {
                let done = if part == Part::Cleanup { "removed" } else { "set" };
                match published(error, detail) {
                    Some(error) => format!("the finalizer could not be {done}: {error}"),
                    None => format!("the finalizer could not be {done}"),
                }
            }
            // The error names the field, and no value.
            Self::Decode(error) => format!("{error}: the object does not match the type of the controller"),
            Self::Panic(Panic { message, place }) => match (detail, place) {
                (FailureEvents::Full, _) => format!("{part} panicked: {}", redact(message)),
                (FailureEvents::Outermost, Some(place)) => format!("{part} panicked at {place}"),
                _ => format!("{part} panicked"),
            },
            Self::Timeout(limit) => {
                let limit = kooper_grammar::duration::format(*limit);
                format!("{part} took longer than its timeout of {limit} (do less in a call, or raise `timeout`)")
            }
            Self::Stopped => format!("{part} was aborted: the drain time is over"),
            Self::Ended => format!("{part} was aborted: another replica may work on its object"),
            Self::Changed => format!("{part} was aborted: its object has changed"),
        }
    }
}

/// The published part of an error.
fn published(error: &BoxError, detail: FailureEvents) -> Option<String> {
    match detail {
        FailureEvents::Off | FailureEvents::Brief => None,
        FailureEvents::Outermost => Some(error::public_chain(&**error)),
        FailureEvents::Full => Some(error::chain(&**error)),
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handler => "the handler",
            Self::Cleanup => "`cleanup`",
            Self::Deleted => "`deleted`",
        })
    }
}
