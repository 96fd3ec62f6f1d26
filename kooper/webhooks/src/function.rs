//! Async functions that validate or change an object.

use futures_util::future::BoxFuture;
use kooper_access::internal::GivenSettings;
use kooper_runtime::BoxError;

use crate::argument::{Argument, Context, NewObject};

/// A function that validates: an async function of the object and up to seven
/// [`Argument`]s, which returns `()` or a `Result<(), E>`. Its error denies the request if
/// it is or has a [`Denied`](crate::Denied).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that validates `{K}`",
    label = "not a function that validates",
    note = "it is an `async fn` whose first argument is `Arc<{K}>`, followed by `Option<Arc<{K}>>`, `Admission`, `State<S>` or `Settings<T>`, and which returns `()` or `Result<(), E>`"
)]
pub trait ValidateFunction<K, S, Args>: Send + Sync + 'static {
    /// `true` if it can be called without an object, as for a deletion.
    #[doc(hidden)]
    const IS_OPTIONAL: bool;

    /// `true` if it takes the object before an update or a deletion.
    #[doc(hidden)]
    const TAKES_OLD: bool;

    /// The type of settings that are not there.
    #[doc(hidden)]
    #[must_use]
    fn lacks(settings: &GivenSettings) -> Option<&'static str>;

    /// Calls it; `None` if an object is required and absent.
    fn validate(&self, context: Context<K, S>) -> Option<BoxFuture<'static, Result<(), BoxError>>>;
}

/// A function that changes an object before it is stored: an async function of the object
/// and up to seven [`Argument`]s, which returns the object, or a `Result` with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that changes `{K}`",
    label = "not a function that changes it",
    note = "it is an `async fn` whose first argument is `{K}`, followed by `Option<Arc<{K}>>`, `Admission`, `State<S>` or `Settings<T>`, and which returns `{K}` or `Result<{K}, E>`"
)]
pub trait MutateFunction<K, S, Args>: Send + Sync + 'static {
    /// `true` if it takes the object before an update.
    #[doc(hidden)]
    const TAKES_OLD: bool;

    /// The type of settings that are not there.
    #[doc(hidden)]
    #[must_use]
    fn lacks(settings: &GivenSettings) -> Option<&'static str>;

    /// Calls it.
    fn mutate(&self, object: K, context: Context<K, S>) -> BoxFuture<'static, Result<K, BoxError>>;
}

/// The return type of a function that validates: `()`, or a `Result` of it.
#[diagnostic::on_unimplemented(
    message = "a function that validates cannot return `{Self}`",
    label = "not the result of a validation",
    note = "return `()`, or `Result<(), E>` with an error that denies the request, see `Denied`"
)]
pub trait ValidateOutcome {
    /// The result with any error.
    #[doc(hidden)]
    fn into_result(self) -> Result<(), BoxError>;
}

impl ValidateOutcome for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> ValidateOutcome for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

/// The return type of a function that changes objects `K`: `K`, or a `Result` of it.
#[diagnostic::on_unimplemented(
    message = "a function that changes `{K}` cannot return `{Self}`",
    label = "not the changed object",
    note = "return `{K}` or `Result<{K}, E>`"
)]
pub trait MutateOutcome<K> {
    /// The result with any error.
    #[doc(hidden)]
    fn into_result(self) -> Result<K, BoxError>;
}

impl<K> MutateOutcome<K> for K {
    fn into_result(self) -> Result<K, BoxError> {
        Ok(self)
    }
}

impl<K, E: Into<BoxError>> MutateOutcome<K> for Result<K, E> {
    fn into_result(self) -> Result<K, BoxError> {
        self.map_err(Into::into)
    }
}

macro_rules! functions {
    ($($argument:ident)*) => {
        impl<K, S, F, R, N, $($argument,)*> ValidateFunction<K, S, (N, $($argument,)*)> for F
        where
            F: Fn(N, $($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output: ValidateOutcome> + Send + 'static,
            N: NewObject<K>,
            $($argument: Argument<K, S>,)*
        {
            const IS_OPTIONAL: bool = N::IS_OPTIONAL;
            const TAKES_OLD: bool = false $(|| $argument::IS_OLD)*;

            fn lacks(settings: &GivenSettings) -> Option<&'static str> {
                let _ = settings;
                None$(.or_else(|| $argument::lacks(settings)))*
            }

            fn validate(&self, mut context: Context<K, S>) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
                let new = N::take(context.new.take())?;
                let future = self(new, $($argument::extract(&context)),*);
                Some(Box::pin(async move { ValidateOutcome::into_result(future.await) }))
            }
        }

        impl<K, S, F, R, $($argument,)*> MutateFunction<K, S, (K, $($argument,)*)> for F
        where
            F: Fn(K, $($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output: MutateOutcome<K>> + Send + 'static,
            $($argument: Argument<K, S>,)*
        {
            const TAKES_OLD: bool = false $(|| $argument::IS_OLD)*;

            fn lacks(settings: &GivenSettings) -> Option<&'static str> {
                let _ = settings;
                None$(.or_else(|| $argument::lacks(settings)))*
            }

            fn mutate(&self, object: K, context: Context<K, S>) -> BoxFuture<'static, Result<K, BoxError>> {
                let _ = &context;
                let future = self(object, $($argument::extract(&context)),*);
                Box::pin(async move { MutateOutcome::into_result(future.await) })
            }
        }
    };
}

functions!();
functions!(A1);
functions!(A1 A2);
functions!(A1 A2 A3);
functions!(A1 A2 A3 A4);
functions!(A1 A2 A3 A4 A5);
functions!(A1 A2 A3 A4 A5 A6);
functions!(A1 A2 A3 A4 A5 A6 A7);
