//! The arguments of one call, from a cluster with a server.

use std::sync::Arc;

use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use tokio_util::sync::CancellationToken;

use super::{Cluster, PROGRAM};
use crate::{call, selecting};
use kooper_access::State;
use kooper_access::events::EventSink;
use kooper_access::extract::{Argument, Context, ControllerContext};
use kooper_access::handler::Handler;
use kooper_access::internal::extensions;
use kooper_access::plan::Plan;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::internal::watch::store::{Cache, Store};
use kooper_runtime::metrics::NoMetrics;
use kooper_runtime::object::Object;
use kooper_runtime::{Action, Kind, ObjectKey, Result};

/// Makes the arguments of a handler's call for one object of a [`Cluster`].
#[derive(Debug)]
#[must_use = "`call` calls a handler, and `take` makes an argument"]
pub struct LiveArguments<O, S = ()> {
    cluster: Cluster,
    object: Arc<O>,
    state: State<S>,
    attempt: u32,
    cancelled: CancellationToken,
}

impl<O: Kind> LiveArguments<O> {
    pub(super) fn new(cluster: Cluster, object: Arc<O>) -> Self {
        Self { cluster, object, state: State::new(()), attempt: 1, cancelled: CancellationToken::new() }
    }
}

impl<O: Kind, S: Send + Sync + 'static> LiveArguments<O, S> {
    /// Sets the state of the controller, which handlers take as [`State`]. A clone of
    /// it shows what the handler has done with it.
    pub fn state<T: Send + Sync + 'static>(self, state: State<T>) -> LiveArguments<O, T> {
        let Self { cluster, object, attempt, cancelled, .. } = self;
        LiveArguments { cluster, object, state, attempt, cancelled }
    }

    /// Sets the number of the attempt, which counts from 1. Default: 1.
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// Cancels the call, as its `Call` argument shows.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Makes an argument of the type that the handler takes: the object, a
    /// `Call`, a `Client`, a `Recorder`, or any capability. What a `Reader` reads
    /// is listed now; it does not follow later changes. A `State` is that of
    /// [`state`](Self::state).
    ///
    /// # Panics
    /// If what a reader reads cannot be listed.
    pub async fn take<A: Argument<O, S, M>, M>(&self) -> A {
        A::extract(&self.context(A::plan).await)
    }

    /// Calls a handler with all of its arguments, and returns its result.
    ///
    /// # Errors
    /// When the handler fails.
    ///
    /// # Panics
    /// If what a reader reads cannot be listed.
    pub async fn call<H: Handler<O, S, Args>, Args>(&self, handler: H) -> Result<Action> {
        handler.handle(self.context(H::plan).await).await
    }

    /// The context of a call whose function plans this.
    async fn context(&self, plans: fn(&mut Plan)) -> Context<O, S> {
        let kind = KindInfo::of::<O>();
        let mut plan = Plan::default();
        plans(&mut plan);
        plan.settle_caches();
        let mut caches = vec![(CacheId::of::<O>(), kind.clone(), self.list(&kind).await)];
        for request in plan.caches() {
            let cache = selecting(self.list(&request.kind).await, request.id.selected);
            caches.push((request.id, request.kind.clone(), cache));
        }
        let controller: Arc<str> = kind.kind.to_lowercase().into();
        let client = self.cluster.client();
        let events = EventSink::start(Some(client.clone()), PROGRAM, &controller, PROGRAM, Arc::new(NoMetrics));
        let events = Arc::new(events);
        let call = call(&controller, ObjectKey::of(&self.object), self.attempt, self.cancelled.clone());
        let extensions = extensions(&plan, self.cluster.settings.clone());
        let detached = ControllerContext::detached(kind, CacheId::of::<O>(), caches.into_iter().collect());
        let controller = detached.connected(PROGRAM, &controller, client, events, extensions);
        Context::new(self.object.clone(), call, self.state.clone(), Arc::new(controller))
    }

    /// The objects of a kind as they are now.
    async fn list(&self, kind: &KindInfo) -> Cache {
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind),
            &kind.plural,
        );
        let client = self.cluster.server.test_client();
        // Other tests have namespaces of their own on the real server.
        let api: Api<DynamicObject> = match self.cluster.server.is_shared() && kind.namespaced {
            true => Api::namespaced_with(client, self.cluster.namespace(), &resource),
            false => Api::all_with(client, &resource),
        };
        let list = api.list(&ListParams::default()).await;
        let list = list.unwrap_or_else(|error| panic!("the {} cannot be listed: {error}", kind.plural));
        let store = Store::default();
        for item in list.items {
            let parsed = serde_json::to_vec(&item).ok().and_then(|json| Object::parse(&json).ok());
            if let Some(object) = parsed {
                store.put(object);
            }
        }
        Cache::new([(None, Arc::new(store))])
    }
}
