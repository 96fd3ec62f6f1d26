//! A function that is assembled step by step, so that each error in its signature is reported
//! separately. The attributes generate these calls instead of [`Builder::function`].

use kooper_access::handler::Asynchronous;
use kooper_runtime::{BoxError, Kind};
use serde::Serialize;

use super::{Builder, Mutate, Validate};
use crate::argument::{Context, MutatedObject, NewObject, WebhookArgument};
use crate::function::{ArgumentSources, Call, Function, MutateOutcome, ValidateOutcome};

type Extract<K, S, A> = Box<dyn Fn(&mut Context<K, S>) -> Option<A> + Send + Sync>;
type Finish<K, S, T, O> = Box<dyn FnOnce(fn(T) -> Result<O, BoxError>) -> Call<K, S, O>>;

/// A builder whose function has the arguments `A` so far.
#[doc(hidden)]
pub struct FunctionBuilder<K, M, S, A> {
    builder: Builder<K, M, S>,
    extract: Extract<K, S, A>,
    sources: ArgumentSources,
}

/// A builder whose function returns `T`, of which an `O` is made.
#[doc(hidden)]
pub struct TypedFunction<K, M, S, T, O> {
    builder: Builder<K, M, S>,
    finish: Finish<K, S, T, O>,
    sources: ArgumentSources,
}

kooper_runtime::internal::debug_fields! { FunctionBuilder<K, M, S, A> { builder } }

kooper_runtime::internal::debug_fields! { TypedFunction<K, M, S, T, O> { builder } }

impl<K, M, S> Builder<K, M, S> {
    /// Begins a function without arguments.
    #[doc(hidden)]
    #[must_use]
    pub fn arguments(self) -> FunctionBuilder<K, M, S, ()> {
        FunctionBuilder { builder: self, extract: Box::new(|_| Some(())), sources: ArgumentSources::default() }
    }
}

impl<K: Kind, S: Send + Sync + 'static> FunctionBuilder<K, Validate, S, ()> {
    /// The object, the first argument.
    #[doc(hidden)]
    #[must_use]
    pub fn new_object<N: NewObject<K>>(self) -> FunctionBuilder<K, Validate, S, ((), N)> {
        let extract = Box::new(|context: &mut Context<K, S>| Some(((), N::take(context.new.take())?)));
        let sources = ArgumentSources { is_optional: N::IS_OPTIONAL, ..self.sources };
        FunctionBuilder { builder: self.builder, extract, sources }
    }
}

impl<K: Kind + Serialize, S: Send + Sync + 'static> FunctionBuilder<K, Mutate, S, ()> {
    /// The object, the first argument.
    #[doc(hidden)]
    #[must_use]
    pub fn mutated_object<N: MutatedObject<K>>(self) -> FunctionBuilder<K, Mutate, S, ((), N)> {
        let extract = Box::new(|context: &mut Context<K, S>| Some(((), N::take(context.new.take())?)));
        FunctionBuilder { builder: self.builder, extract, sources: self.sources }
    }
}

impl<K: Kind, M: 'static, S: Send + Sync + 'static, A: 'static> FunctionBuilder<K, M, S, A> {
    /// One more argument.
    #[doc(hidden)]
    #[must_use]
    pub fn argument<T: WebhookArgument<K, S>>(self) -> FunctionBuilder<K, M, S, (A, T)> {
        let Self { builder, extract: before, mut sources } = self;
        sources.add(T::SOURCE);
        FunctionBuilder {
            builder: builder.planned(T::plan),
            extract: Box::new(move |context| {
                let before = before(context)?;
                Some((before, T::extract(context)))
            }),
            sources,
        }
    }

    /// The function, and its call with the extracted arguments.
    #[doc(hidden)]
    #[must_use]
    pub fn call<H, F, Fut, O>(self, function: H, call: F) -> TypedFunction<K, M, S, Fut::Answer, O>
    where
        H: Send + Sync + 'static,
        F: Fn(&H, A) -> Fut + Send + Sync + 'static,
        Fut: Asynchronous + Send + 'static,
        O: 'static,
    {
        let Self { builder, extract, sources } = self;
        let finish = move |outcome: fn(Fut::Answer) -> Result<O, BoxError>| -> Call<K, S, O> {
            Box::new(move |mut context| {
                let future = call(&function, extract(&mut context)?);
                Some(Box::pin(async move { outcome(future.await) }))
            })
        };
        TypedFunction { builder, finish: Box::new(finish), sources }
    }
}

impl<K: Kind, S: Send + Sync + 'static, T: ValidateOutcome> TypedFunction<K, Validate, S, T, ()> {
    /// Completes the function with its return type.
    #[doc(hidden)]
    pub fn validated(self) -> Builder<K, Validate, S> {
        let Self { builder, finish, sources } = self;
        builder.validated_by(Function { call: finish(T::into_result), sources })
    }
}

impl<K: Kind + Serialize, S: Send + Sync + 'static, T: MutateOutcome<K>> TypedFunction<K, Mutate, S, T, K> {
    /// Completes the function with its return type.
    #[doc(hidden)]
    pub fn mutated(self) -> Builder<K, Mutate, S> {
        let Self { builder, finish, sources } = self;
        builder.mutated_by(Function { call: finish(T::into_result), sources })
    }
}
