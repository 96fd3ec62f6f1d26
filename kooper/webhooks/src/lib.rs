//! Admission webhooks as functions, for operators that are written with
//! [Kooper](https://github.com/kooper-rs/kooper).
//!
//! A [`Webhook`] is a function that validates or mutates the objects of a kind before the API
//! server stores them. [`Webhooks`] serves the webhooks of a program over HTTPS, and registers them.

mod admission;
mod argument;
mod authority;
mod certificates;
mod denied;
mod function;
mod inputs;
mod installed;
mod patch;
mod program;
mod readiness;
mod registration;
mod review;
mod server;
mod states;
mod webhook;

pub use admission::{Admission, Operation};
#[doc(hidden)]
pub use argument::ArgumentSource;
pub use argument::{Context, MutatedObject, NewObject, WebhookArgument};
pub use denied::Denied;
pub use function::{MutateFunction, MutateOutcome, ValidateFunction, ValidateOutcome};
#[doc(hidden)]
pub use installed::Installed;
pub use program::{PORT, Running, StartError, Webhooks};
#[doc(hidden)]
pub use registration::Finding;
pub use server::ServeError;
#[doc(hidden)]
pub use server::metrics::described;
#[doc(hidden)]
pub use states::{KnownWebhooks, Registered, States, WebhookState};
#[doc(hidden)]
pub use webhook::typed::{FunctionBuilder, TypedFunction};
pub use webhook::{Builder, ConfigError, FailurePolicy, Mutate, Validate, Webhook};

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
compile_error!("webhooks are served over HTTPS: enable the feature `ring` or `aws-lc-rs`");
