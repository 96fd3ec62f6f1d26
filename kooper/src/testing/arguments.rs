//! The arguments of one call.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{FakeCluster, call};
use crate::call::action::Action;
use crate::call::extract::{Argument, Context, State};
use crate::call::handler::Handler;
use crate::call::plan::Plan;
use crate::error::Result;
use crate::object::key::ObjectKey;
use crate::object::kind::{Kind, KindInfo};
use crate::watch::cache_id::CacheId;

/// Makes the arguments of a handler's call for one object of a [`FakeCluster`].
#[derive(Debug)]
#[must_use = "`call` calls a handler, and `take` makes an argument"]
pub struct Arguments<O> {
    cluster: FakeCluster,
    object: Arc<O>,
    attempt: u32,
    cancelled: CancellationToken,
}

impl<O: Kind> Arguments<O> {
    pub(super) fn new(cluster: FakeCluster, object: Arc<O>) -> Self {
        Self { cluster, object, attempt: 1, cancelled: CancellationToken::new() }
    }

    /// Sets the number of the attempt, which counts from 1. Default: 1.
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// Cancels the call, which its `Call` argument shows.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Makes an argument of the type that the handler takes: the object, a
    /// `Call`, a `Client`, a `Recorder`, or any capability. A
    /// [`State`](crate::State) is made with [`State::new`](crate::State::new)
    /// instead.
    #[must_use]
    pub fn take<A: Argument<O, (), M>, M>(&self) -> A {
        A::extract(&self.context(A::plan))
    }

    /// Calls a handler with all of its arguments, and returns its result. One that
    /// takes a [`State`](crate::State) is called with single arguments instead, see
    /// [`take`](Self::take).
    ///
    /// # Errors
    /// When the handler fails.
    pub async fn call<H: Handler<O, (), Args>, Args>(&self, handler: H) -> Result<Action> {
        handler.handle(self.context(H::plan)).await
    }

    /// The context of a call whose function plans this.
    fn context(&self, plans: fn(&mut Plan)) -> Context<O, ()> {
        let kind = KindInfo::of::<O>();
        let mut plan = Plan::default();
        plans(&mut plan);
        plan.settle_caches();
        let controller = kind.kind.to_lowercase();
        Context {
            object: self.object.clone(),
            call: call(&controller, ObjectKey::of(&self.object), self.attempt, self.cancelled.clone()),
            state: State::new(()),
            backing: Arc::new(self.cluster.backing(&controller, kind, CacheId::of::<O>(), &plan)),
        }
    }
}
