//! Why a call failed, and which function of the controller it called.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::task::JoinError;

use super::CallResult;
use crate::call::action::Action;
use crate::call::handler::CallError;
use crate::error::refusal::{Cause, Refusal};
use crate::error::{self, BoxError, RetryHint};
use crate::object::DecodeError;

pub(super) type Ended = Result<Option<Action>, Failure>;

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Failure {
    Handler(BoxError),
    /// The finalizer could not be set or removed.
    Finalizer(BoxError),
    Decode(DecodeError),
    Panic(String),
    Timeout(Duration),
    /// The drain time is over.
    Stopped,
}

/// The function that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Handler,
    Cleanup,
    Deleted,
}

impl Failure {
    /// When the key is retried.
    pub(super) fn retry_hint(&self, namespace: Option<&str>) -> RetryHint {
        match self {
            Self::Handler(error) | Self::Finalizer(error) => error::retry_hint(&**error, namespace),
            // The same bytes will not decode next time either.
            Self::Decode(_) => RetryHint::Never,
            Self::Panic(_) | Self::Timeout(_) | Self::Stopped => RetryHint::Backoff,
        }
    }

    /// The missing permission, if a request was forbidden because of a missing
    /// rule: the same value for all objects that lack it.
    pub(super) fn missing_permission(&self) -> Option<u64> {
        let (Self::Handler(error) | Self::Finalizer(error)) = self else { return None };
        let refusal = Refusal::behind(&**error).filter(|refusal| refusal.cause == Cause::MissingRule)?;
        let mut hasher = DefaultHasher::new();
        refusal.permission().hash(&mut hasher);
        Some(hasher.finish())
    }

    /// The failure of a call of this function, for logs and Events.
    pub(super) fn of(&self, part: Part) -> String {
        match self {
            Self::Handler(error) => format!("{part} failed: {}", error::chain(&**error)),
            Self::Finalizer(error) => {
                let done = if part == Part::Cleanup { "removed" } else { "set" };
                format!("the finalizer could not be {done}: {}", error::chain(&**error))
            }
            Self::Decode(error) => format!("{error}: the object does not match the type of the controller"),
            Self::Panic(message) => format!("{part} panicked: {message}"),
            Self::Timeout(limit) => {
                let limit = kooper_grammar::duration::format(*limit);
                format!("{part} took longer than its timeout of {limit} (do less in a call, or raise `timeout`)")
            }
            Self::Stopped => format!("{part} was aborted: the drain time is over"),
        }
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

/// The result of a call's task. A task that was aborted failed for the reason that
/// it was aborted for. A result after the timeout is ignored, even a success.
pub(super) fn ended_as(ended: Result<CallResult, JoinError>, aborted: Failure) -> Ended {
    match ended {
        Ok(_) if matches!(aborted, Failure::Timeout(_)) => Err(aborted),
        Ok(Ok(action)) => Ok(action),
        Ok(Err(CallError::Handler(error))) => Err(Failure::Handler(error)),
        Ok(Err(CallError::Finalizer(error))) => Err(Failure::Finalizer(error)),
        Ok(Err(CallError::Decode(error))) => Err(Failure::Decode(error)),
        Err(error) => Err(match error.try_into_panic() {
            Ok(panic) => Failure::Panic(error::panic_text(&*panic)),
            Err(_cancelled) => aborted,
        }),
    }
}
