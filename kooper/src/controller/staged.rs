//! A handler put together step by step, so that each mistake in its signature
//! is told by itself: what the attribute writes in place of
//! [`Builder::handler`].

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::builder::Builder;
use super::kind::Kind;
use crate::action::Outcome;
use crate::extract::{Argument, Input};

type Extract<O, S, A> = Box<dyn Fn(&Input<O, S>) -> A + Send + Sync>;

/// A builder whose handler has the arguments `A` so far.
#[doc(hidden)]
pub struct Staged<K, O, S, A> {
    builder: Builder<K, O, S>,
    extract: Extract<O, S, A>,
}

/// A builder whose handler returns the future `Fut`.
#[doc(hidden)]
pub struct Called<K, O, S, A, F, Fut> {
    staged: Staged<K, O, S, A>,
    function: F,
    future: PhantomData<fn() -> Fut>,
}

impl<K, O, S> Builder<K, O, S>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// Begins a handler without arguments.
    #[doc(hidden)]
    pub fn arguments(self) -> Staged<K, O, S, ()> {
        Staged { builder: self, extract: Box::new(|_| ()) }
    }
}

impl<K, O, S, A> Staged<K, O, S, A>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
    A: 'static,
{
    /// One more argument.
    #[doc(hidden)]
    pub fn argument<T: Argument<O, S>>(mut self) -> Staged<K, O, S, (A, T)> {
        T::plan(self.builder.plan());
        let before = self.extract;
        Staged { builder: self.builder, extract: Box::new(move |input| (before(input), T::extract(input))) }
    }

    /// The call of the fn.
    #[doc(hidden)]
    pub fn call<F, Fut>(self, function: F) -> Called<K, O, S, A, F, Fut>
    where
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
    {
        Called { staged: self, function, future: PhantomData }
    }
}

impl<K, O, S, A, F, Fut> Called<K, O, S, A, F, Fut>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
    A: 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
{
    /// What the fn returns.
    #[doc(hidden)]
    pub fn outcome(self) -> Builder<K, O, S>
    where
        Fut::Output: Outcome,
    {
        let Staged { builder, extract } = self.staged;
        let (extract, function) = (Arc::new(extract), self.function);
        builder.function(move |input| {
            let future = function(extract(&input));
            Box::pin(async move { future.await.into_action() })
        })
    }
}
