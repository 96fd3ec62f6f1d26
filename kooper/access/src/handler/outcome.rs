//! The results of handlers.

use kooper_runtime::{Action, BoxError};

/// The status of the object, as the result of its handler: it is applied when the handler has succeeded, as by
/// `StatusWriter::apply_status`.
///
/// ```
/// use k8s_openapi::api::core::v1::{Service, ServiceStatus};
/// use kooper::prelude::*;
///
/// async fn expose(_: Arc<Service>) -> Result<Status<ServiceStatus>> {
///     Ok(Status(ServiceStatus::default()))
/// }
/// # let _ = Service::controller("expose").handler(expose).build().unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "a status does nothing unless the handler returns it"]
pub struct Status<T>(pub T);

/// The status of a handler that returns none.
#[derive(Debug)]
pub enum NoStatus {}

/// A type that a handler can return: `()`, [`Action`], [`Status<T>`], or `Result` of one of these and an error that
/// converts into a boxed error.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome of a handler",
    note = "return `()`, `Action`, `Status<T>`, or `Result<(), E>`, `Result<Action, E>` or `Result<Status<T>, E>`, where `E` is an error type (it implements `std::error::Error + Send + Sync`, or is `anyhow::Error` or a boxed error)"
)]
pub trait Outcome {
    /// The status that it sets: [`Status<T>`], or `NoStatus`.
    type Status: Send + 'static;

    /// The action and the status, or the error of the call.
    ///
    /// # Errors
    /// The error of the call.
    fn parts(self) -> Result<(Action, Option<Self::Status>), BoxError>;
}

#[diagnostic::do_not_recommend]
impl Outcome for () {
    type Status = NoStatus;

    fn parts(self) -> Result<(Action, Option<NoStatus>), BoxError> {
        Ok((Action::done(), None))
    }
}

#[diagnostic::do_not_recommend]
impl Outcome for Action {
    type Status = NoStatus;

    fn parts(self) -> Result<(Action, Option<NoStatus>), BoxError> {
        Ok((self, None))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Send + 'static> Outcome for Status<T> {
    type Status = Self;

    fn parts(self) -> Result<(Action, Option<Self>), BoxError> {
        Ok((Action::done(), Some(self)))
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Outcome for Result<(), E> {
    type Status = NoStatus;

    fn parts(self) -> Result<(Action, Option<NoStatus>), BoxError> {
        self.map_err(Into::into)?.parts()
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> Outcome for Result<Action, E> {
    type Status = NoStatus;

    fn parts(self) -> Result<(Action, Option<NoStatus>), BoxError> {
        self.map_err(Into::into)?.parts()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Send + 'static, E: Into<BoxError>> Outcome for Result<Status<T>, E> {
    type Status = Status<T>;

    fn parts(self) -> Result<(Action, Option<Status<T>>), BoxError> {
        self.map_err(Into::into)?.parts()
    }
}
