//! The arguments of one call.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{FakeCluster, call};
use kooper_access::State;
use kooper_access::extract::{Argument, Context};
use kooper_access::handler::Handler;
use kooper_access::plan::Plan;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::{Action, Kind, ObjectKey, Result};

/// Makes the arguments of a handler's call for one object of a [`FakeCluster`].
#[derive(Debug)]
#[must_use = "`call` calls a handler, and `take` makes an argument"]
pub struct Arguments<O, S = ()> {
    cluster: FakeCluster,
    object: Arc<O>,
    state: State<S>,
    attempt: u32,
    cancelled: CancellationToken,
}

impl<O: Kind> Arguments<O> {
    pub(super) fn new(cluster: FakeCluster, object: Arc<O>) -> Self {
        Self { cluster, object, state: State::new(()), attempt: 1, cancelled: CancellationToken::new() }
    }
}

impl<O: Kind, S: Send + Sync + 'static> Arguments<O, S> {
    /// Sets the state of the controller, which handlers take as [`State`]. A clone of
    /// it shows what the handler has done with it.
    pub fn state<T: Send + Sync + 'static>(self, state: State<T>) -> Arguments<O, T> {
        let Self { cluster, object, attempt, cancelled, .. } = self;
        Arguments { cluster, object, state, attempt, cancelled }
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
    /// `Call`, a `Client`, a `Recorder`, or any capability. A `State` is that of
    /// [`state`](Self::state).
    #[must_use]
    pub fn take<A: Argument<O, S, M>, M>(&self) -> A {
        A::extract(&self.context(A::plan))
    }

    /// Calls a handler with all of its arguments, and returns its result.
    ///
    /// # Errors
    /// When the handler fails.
    pub async fn call<H: Handler<O, S, Args>, Args>(&self, handler: H) -> Result<Action> {
        handler.handle(self.context(H::plan)).await
    }

    /// The context of a call whose function plans this.
    fn context(&self, plans: fn(&mut Plan)) -> Context<O, S> {
        let kind = KindInfo::of::<O>();
        let mut plan = Plan::default();
        plans(&mut plan);
        plan.settle_caches();
        let controller = kind.kind.to_lowercase();
        let call = call(&controller, ObjectKey::of(&self.object), self.attempt, self.cancelled.clone());
        let controller = self.cluster.context(&controller, kind, CacheId::of::<O>(), &plan);
        Context::new(self.object.clone(), call, self.state.clone(), Arc::new(controller))
    }
}
