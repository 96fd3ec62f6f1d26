//! A handler that is assembled step by step, so that each error in its signature
//! is reported separately. The attribute generates these calls instead of
//! [`Builder::handler`].

use futures_util::future::BoxFuture;
use kooper_runtime::{Action, BoxError, Kind};
use serde::de::DeserializeOwned;

use super::builder::Builder;
use crate::extract::{Argument, Context};
use crate::handler::{Asynchronous, End, Handler, HandlerFn, Outcome, StatusOf, end, finish};
use crate::plan::Plan;

type Extract<O, S, A> = Box<dyn Fn(&Context<O, S>) -> A + Send + Sync>;
type Finish<O, S, T> = Box<dyn FnOnce(fn(&Context<O, S>) -> End<T>) -> HandlerFn<O, S>>;

/// A builder whose handler has the arguments `A` so far.
#[doc(hidden)]
pub struct HandlerBuilder<K, O, S, A> {
    builder: Builder<K, O, S>,
    extract: Extract<O, S, A>,
}

/// A builder whose handler returns `T`.
///
/// The types of the function and its future do not appear here: errors about
/// their bounds were reported at the call, and are not reported again.
#[doc(hidden)]
pub struct TypedHandler<K, O, S, T> {
    builder: Builder<K, O, S>,
    finish: Finish<O, S, T>,
}

/// A handler that is complete, and whose builder has planned what its arguments need.
#[doc(hidden)]
pub struct CompleteHandler<O, S>(HandlerFn<O, S>);

kooper_runtime::internal::debug_fields! { HandlerBuilder<K, O, S, A> { builder } }

kooper_runtime::internal::debug_fields! { TypedHandler<K, O, S, T> {} }

kooper_runtime::internal::debug_fields! { CompleteHandler<O, S> {} }

#[diagnostic::do_not_recommend]
impl<O: 'static, S: 'static> Handler<O, S, ()> for CompleteHandler<O, S> {
    fn plan(_: &mut Plan) {}

    fn handle(&self, context: Context<O, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
        (self.0)(context)
    }
}

impl<K, O, S> Builder<K, O, S>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// Begins a handler without arguments.
    #[doc(hidden)]
    #[must_use]
    pub fn arguments(self) -> HandlerBuilder<K, O, S, ()> {
        HandlerBuilder { builder: self, extract: Box::new(|_| ()) }
    }
}

impl<K, O, S, A> HandlerBuilder<K, O, S, A>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
    A: 'static,
{
    /// One more argument.
    #[doc(hidden)]
    #[must_use]
    pub fn argument<T: Argument<O, S, M>, M>(mut self) -> HandlerBuilder<K, O, S, (A, T)> {
        T::plan(self.builder.plan());
        let before = self.extract;
        HandlerBuilder {
            builder: self.builder,
            extract: Box::new(move |context| (before(context), T::extract(context))),
        }
    }

    /// The function, and its call with the extracted arguments.
    #[doc(hidden)]
    #[must_use]
    pub fn call<H, F, Fut>(self, handler: H, call: F) -> TypedHandler<K, O, S, Fut::Answer>
    where
        H: Send + Sync + 'static,
        F: Fn(&H, A) -> Fut + Send + Sync + 'static,
        Fut: Asynchronous + Send + 'static,
    {
        let Self { builder, extract } = self;
        let finish = move |end: fn(&Context<O, S>) -> End<Fut::Answer>| -> HandlerFn<O, S> {
            Box::new(move |context| {
                let (future, end) = (call(&handler, extract(&context)), end(&context));
                Box::pin(async move { finish(end(future.await)).await })
            })
        };
        TypedHandler { builder, finish: Box::new(finish) }
    }
}

impl<K, O, S, T> TypedHandler<K, O, S, T>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// The return type of the function. The handler can be wrapped before the builder gets it.
    #[doc(hidden)]
    pub fn outcome<M>(mut self) -> (Builder<K, O, S>, CompleteHandler<O, S>)
    where
        T: Outcome<Status: StatusOf<O, S, M>>,
    {
        T::Status::plan(self.builder.plan());
        (self.builder, CompleteHandler((self.finish)(end)))
    }
}
