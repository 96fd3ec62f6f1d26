//! What a handler asks for when it succeeded.

use std::time::Duration;

use crate::error::BoxError;

/// The outcome of a successful call: nothing more to do, or come back later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "an action does nothing unless the handler returns it"]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Nothing more to do until the object changes or resync comes round.
    pub const fn done() -> Self {
        Self { requeue_after: None }
    }

    /// Call the handler again after this long. The last outcome counts: a call
    /// in between replaces the delay by its own. A delay of zero is a back-off:
    /// it doubles as long as it is repeated without a change.
    pub const fn requeue_after(delay: Duration) -> Self {
        Self { requeue_after: Some(delay) }
    }

    /// The delay that was asked for.
    pub const fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// What a handler may return: `()`, [`Action`], `Result<(), E>` or
/// `Result<Action, E>`, with any error that turns into a boxed one.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome of a handler",
    note = "return `()`, `Action`, `Result<(), E>` or `Result<Action, E>`, where `E` is an error type (it implements `std::error::Error + Send + Sync`, or is `anyhow::Error` or a boxed error)"
)]
pub trait Outcome {
    /// The action, or the error that failed the call.
    fn into_action(self) -> Result<Action, BoxError>;
}

#[diagnostic::do_not_recommend]
impl Outcome for () {
    fn into_action(self) -> Result<Action, BoxError> {
        Ok(Action::done())
    }
}

#[diagnostic::do_not_recommend]
impl Outcome for Action {
    fn into_action(self) -> Result<Action, BoxError> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Outcome for Result<(), E> {
    fn into_action(self) -> Result<Action, BoxError> {
        self.map(|()| Action::done()).map_err(Into::into)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Outcome for Result<Action, E> {
    fn into_action(self) -> Result<Action, BoxError> {
        self.map_err(Into::into)
    }
}
