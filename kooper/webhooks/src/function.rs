//! Async functions that validate or mutate an object.

use futures_util::future::BoxFuture;
use kooper_access::plan::Plan;
use kooper_runtime::BoxError;

use crate::argument::{ArgumentSource, Context, MutatedObject, NewObject, WebhookArgument};

/// A function without the types of its arguments. It returns `None` if an object is required and
/// absent.
pub(crate) type Call<K, S, O> =
    Box<dyn Fn(Context<K, S>) -> Option<BoxFuture<'static, Result<O, BoxError>>> + Send + Sync>;

/// The use of its arguments by a function.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArgumentSources {
    /// It can be called without an object, as for a deletion.
    pub(crate) is_optional: bool,
    /// It takes the object before an update or a deletion.
    pub(crate) old: bool,
    /// It takes what the process has.
    pub(crate) process: bool,
    /// It takes the client, by which it can have side effects.
    pub(crate) client: bool,
}

impl ArgumentSources {
    /// Adds an argument.
    pub(crate) fn add(&mut self, argument: ArgumentSource) {
        self.old |= argument == ArgumentSource::Old;
        self.client |= argument == ArgumentSource::Client;
        self.process |= matches!(argument, ArgumentSource::Process | ArgumentSource::Client);
    }
}

/// A function with the way it is called.
pub(crate) struct Function<K, S, O> {
    pub(crate) call: Call<K, S, O>,
    pub(crate) sources: ArgumentSources,
}

/// The function of a validating webhook: an async function that takes the object and up to
/// seven [`WebhookArgument`](crate::WebhookArgument)s, and returns `()` or a `Result<(), E>`. The error denies the request if
/// a [`Denied`](crate::Denied) is in the chain of its sources.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a validating webhook for `{K}`",
    label = "not a validating webhook",
    note = "it is an `async fn` whose first argument is `Arc<{K}>`, followed by `Option<Arc<{K}>>`, `Admission`, `Reader<T>`, `Client`, `State<S>` or `Settings<T>`, and which returns `()` or `Result<(), E>`"
)]
pub trait ValidateFunction<K, S, Args>: Sized + Send + Sync + 'static {
    /// Adds to the plan what the arguments need.
    #[doc(hidden)]
    fn plan(plan: &mut Plan);

    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only the builder calls it")]
    fn function(self) -> Function<K, S, ()>;
}

/// The function of a mutating webhook: an async function that takes the object and up to seven
/// [`WebhookArgument`](crate::WebhookArgument)s, and returns the object, or a `Result` with it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mutating webhook for `{K}`",
    label = "not a mutating webhook",
    note = "it is an `async fn` whose first argument is `{K}`, followed by `Option<Arc<{K}>>`, `Admission`, `Reader<T>`, `Client`, `State<S>` or `Settings<T>`, and which returns `{K}` or `Result<{K}, E>`"
)]
pub trait MutateFunction<K, S, Args>: Sized + Send + Sync + 'static {
    /// Adds to the plan what the arguments need.
    #[doc(hidden)]
    fn plan(plan: &mut Plan);

    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only the builder calls it")]
    fn function(self) -> Function<K, S, K>;
}

/// The return type of a validating webhook: `()`, or a `Result` with it.
#[diagnostic::on_unimplemented(
    message = "a validating webhook cannot return `{Self}`",
    label = "not the result of a validation",
    note = "return `()`, or `Result<(), E>` where a `Denied` as the error denies the request"
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

/// The return type of a mutating webhook for objects `K`: `K`, or a `Result` with it.
#[diagnostic::on_unimplemented(
    message = "a mutating webhook for `{K}` cannot return `{Self}`",
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
            $($argument: WebhookArgument<K, S>,)*
        {
            functions!(@methods (), N::IS_OPTIONAL, N::take, ValidateOutcome, $($argument)*);
        }

        impl<K, S, F, R, N, $($argument,)*> MutateFunction<K, S, (N, $($argument,)*)> for F
        where
            F: Fn(N, $($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output: MutateOutcome<K>> + Send + 'static,
            N: MutatedObject<K>,
            $($argument: WebhookArgument<K, S>,)*
        {
            functions!(@methods K, false, N::take, MutateOutcome, $($argument)*);
        }
    };
    (@methods $output:ty, $optional:expr, $take:expr, $outcome:ident, $($argument:ident)*) => {
        fn plan(plan: &mut Plan) {
            let _ = &plan;
            $($argument::plan(plan);)*
        }

        #[expect(private_interfaces, reason = "only the builder calls it")]
        fn function(self) -> Function<K, S, $output> {
            #[allow(unused_mut, reason = "a function may have no argument")]
            let mut sources = ArgumentSources { is_optional: $optional, ..ArgumentSources::default() };
            $(sources.add($argument::SOURCE);)*
            let call: Call<K, S, $output> = Box::new(move |mut context| {
                let object = $take(context.new.take())?;
                let future = self(object, $($argument::extract(&context)),*);
                Some(Box::pin(async move { $outcome::into_result(future.await) }))
            });
            Function { call, sources }
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
