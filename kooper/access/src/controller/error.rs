//! The errors of building and running controllers.

use std::fmt::Display;

use kooper_grammar::name::NameError;
use kooper_runtime::ControllerError;
use kooper_runtime::internal::controller::Config;
use kooper_runtime::metrics::MetricsError;

/// A controller cannot be built: one of its settings is missing or invalid.
/// Returned by `build` of a controller's builder.
///
/// The errors of controllers, in the order in which a program meets them:
///
/// | error | returned by |
/// |---|---|
/// | [`ConfigError`] | `Pod::controller(…)…build()`, and the setters of `Controller` |
/// | [`BuildError`] | `Operator::builder()…build()` |
/// | [`RunError`] | `Operator::run` and `Controller::run` |
/// | [`ControllerError`] | part of a [`RunError`]: why one controller ended |
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::{ConfigErrorKind, KindExt};
///
/// let error = Pod::controller("echo").workers(0).handler(async || {}).build().unwrap_err();
/// assert_eq!((error.field, error.kind), ("workers", ConfigErrorKind::OutOfRange));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("controller `{controller}`: {field}: {problem}")]
pub struct ConfigError {
    /// The name of the controller, as it was given.
    pub controller: String,
    /// The setting that is missing or invalid: the name of the builder's method.
    pub field: &'static str,
    /// The kind of the error.
    pub kind: ConfigErrorKind,
    /// A human-readable message: the problem, and what to write instead.
    pub problem: String,
}

impl ConfigError {
    /// An error in a setting of the controller with these settings.
    pub(crate) fn new(config: &Config, field: &'static str, kind: ConfigErrorKind, problem: impl Display) -> Self {
        Self { controller: config.name.clone(), field, kind, problem: problem.to_string() }
    }
}

/// The kinds of a [`ConfigError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The setting is required and missing.
    Missing,
    /// The value is not a valid name, selector or rule.
    Malformed,
    /// The value is too small, too large or empty.
    OutOfRange,
    /// The setting cannot be combined with another one of the controller.
    Conflict,
    /// Another controller of the program, or the program itself, has this name,
    /// finalizer, Lease or previous name.
    Taken,
    /// The setting needs a client, and the operator has none.
    NoClient,
}

/// An operator cannot be built. Returned by `build` of an
/// operator's builder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting of a controller is invalid, or conflicts with another
    /// controller's.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The instance name is invalid.
    #[error("the instance name: {0}")]
    Instance(NameError),
    /// The names of program, instance and controller are too long for a field manager.
    #[error(
        "the field manager `{manager}`, made from the names of the program, the instance and the controller, has more \
         than {most} characters: choose a shorter name"
    )]
    FieldManager {
        /// The field manager.
        manager: String,
        /// The maximum length, in characters.
        most: usize,
    },
    /// The metrics recorder rejected a controller.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// An operator, or a controller that was run alone, ended without a request to
/// stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operator around a single controller cannot be built. Returned by
    /// `Controller::run` only.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The operator has no controllers to run.
    #[error("the operator has no controllers: add one with `controller`")]
    NoControllers,
    /// Every controller has ended.
    #[error("every controller has ended; the last one was `{controller}`: {reason}")]
    AllEnded {
        /// The name of the controller that ended last.
        controller: String,
        /// Why it ended.
        reason: ControllerError,
    },
    /// A controller ended in a way that requires the process to end.
    #[error("controller `{controller}`: {reason}")]
    Controller {
        /// The name of the controller.
        controller: String,
        /// Why it ended.
        reason: ControllerError,
    },
}
