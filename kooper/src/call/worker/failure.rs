//! Why a call failed, and which fn of the controller it was.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::task::JoinError;

use super::Called;
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

/// The fn that a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Handler,
    Cleanup,
    Deleted,
}

impl Failure {
    /// What the error asks for.
    pub(super) fn retry_hint(&self) -> RetryHint {
        match self {
            Self::Handler(error) | Self::Finalizer(error) => error::retry_hint(&**error),
            // The same bytes will not decode next time either.
            Self::Decode(_) => RetryHint::Never,
            Self::Panic(_) | Self::Timeout(_) | Self::Stopped => RetryHint::Backoff,
        }
    }

    /// Which permission is missing, if the authorizer refused a request: the
    /// same for all objects that lack it.
    pub(super) fn missing_permission(&self) -> Option<u64> {
        let (Self::Handler(error) | Self::Finalizer(error)) = self else { return None };
        let refusal = Refusal::behind(&**error).filter(|refusal| refusal.cause == Cause::MissingRule)?;
        let mut hasher = DefaultHasher::new();
        refusal.permission().hash(&mut hasher);
        Some(hasher.finish())
    }

    /// What happened to a call of this fn, for logs and Events.
    pub(super) fn of(&self, part: Part) -> String {
        match self {
            Self::Handler(error) => format!("{part} failed: {}", error::chain(&**error)),
            Self::Finalizer(error) => {
                let done = if part == Part::Cleanup { "removed" } else { "set" };
                format!("the finalizer could not be {done}: {}", error::chain(&**error))
            }
            Self::Decode(error) => format!("{error}: the type of the controller does not fit what the cluster holds"),
            Self::Panic(message) => format!("{part} panicked: {message}"),
            Self::Timeout(limit) => {
                let limit = kooper_grammar::duration::format(*limit);
                format!("{part} took longer than its timeout of {limit} (do less in a call, or raise `timeout`)")
            }
            Self::Stopped => format!("{part} was ended: the drain time is over"),
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

/// The end of a call's task; one that was ended failed for the reason that it
/// was ended for. What comes after the timeout is too late, success too.
pub(super) fn ended_as(ended: Result<Called, JoinError>, aborted: Failure) -> Ended {
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
