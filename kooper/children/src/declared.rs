//! The builder of declared children, and the handlers that it makes.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use kooper_access::extract::Context;
use kooper_access::handler::{Handler, HandlerFn};
use kooper_access::internal::Additions;
use kooper_access::plan::Plan;
use kooper_runtime::internal::error::panicking::{Panic, caught};
use kooper_runtime::internal::error::{RetryHint, retry_hint};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::{Action, BoxError, HandlerError, Kind};

use crate::children::ReadChildren;
use crate::executor::Executor;
use crate::function::{CallFn, ChildKind, Form};
use crate::graph::{Graph, GraphError, PreviousKind};
use crate::kind::{DynKind, TypedKind};
use crate::memory::SlotMemory;
use crate::slot::{Deletes, FunctionId, Slot, SlotExt, SlotInputs, Verbs};
use crate::status::{self, OwnerStatus, Report, Reports, StatusFields};
use crate::typed::{DynSlot, PlanSlot, Planned, PreviousChildren, Typed};

/// The deletion of a child calls for the owner earlier.
const WAVE_AGAIN: Duration = Duration::from_secs(60);

/// The note on an owner calls for it earlier, unless the controller ignores changes of annotations.
const NOTED_AGAIN: Duration = Duration::from_secs(1);

/// Begins the declaration of children of an owner `P`, in a controller with the state `S`.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::prelude::*;
/// use kooper_children::{Children, SlotExt, declare};
/// use serde_json::{from_value, json};
///
/// fn password(_: &ConfigMap) -> Result<Secret> {
///     Ok(from_value(json!({"metadata": {"name": "password"}, "stringData": {"password": "open sesame"}}))?)
/// }
///
/// fn web(_: &ConfigMap, password: &Secret) -> Result<Deployment> {
///     let secret = json!([{"secretRef": {"name": password.name_any()}}]);
///     Ok(from_value(json!({
///         "metadata": {"name": "web"},
///         "spec": {
///             "selector": {"matchLabels": {"app": "web"}},
///             "template": {
///                 "metadata": {"labels": {"app": "web"}},
///                 "spec": {"containers": [{"name": "web", "image": "example.com/web", "envFrom": secret}]},
///             },
///         },
///     }))?)
/// }
///
/// async fn shops(children: Children<ConfigMap>) -> Result<()> {
///     let web = children.get(web)?;
///     tracing::info!(exists = web.is_some(), "reconciled");
///     Ok(())
/// }
///
/// let children = declare().child(password.slot().once()).child(web.with((password,))).build()?;
/// let controller = ConfigMap::controller("shops")
///     .handler(children.handler(shops))
///     .cleanup("example.com/shop", children.deletion(async || {}))
///     .build()?;
/// # let _ = controller;
/// # Ok::<_, kooper::BoxError>(())
/// ```
pub fn declare<P: Kind, S>() -> Declaration<P, S, ()> {
    Declaration { slots: Vec::new(), previous: Vec::new(), report: None, mistake: None, planned: PhantomData }
}

/// Slots that are being declared. `L` is the list of their types.
#[must_use = "slots do nothing until they are built"]
pub struct Declaration<P, S, L> {
    slots: Vec<Box<dyn DynSlot<P, S>>>,
    previous: Vec<(PreviousKind, Box<dyn DynKind<P, S>>)>,
    report: Option<Report<P, S>>,
    mistake: Option<GraphError>,
    planned: PhantomData<fn() -> L>,
}

/// The slots of a controller. It creates the handlers that apply and delete their children.
pub struct Declared<P, S, L> {
    executor: Arc<Executor<P, S>>,
    planned: PhantomData<fn() -> L>,
}

/// A child function without inputs, or a [`Slot`]. The parameters are inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a slot of `{P}`",
    label = "not a slot",
    note = "pass a child function `fn(&{P}) -> T`; one that takes children of other slots names them with `with`, as in `web.with((config, password))`"
)]
pub trait IntoSlot<P, S, M> {
    /// The types of the slot.
    type Planned: PlanSlot<P, S>;

    #[doc(hidden)]
    fn into_slot(self) -> AnySlot<P, S>;
}

/// A slot without its type.
#[doc(hidden)]
pub struct AnySlot<P, S>(Box<dyn DynSlot<P, S>>);

/// The marker of functions.
#[derive(Debug)]
pub struct OfFunction<M>(PhantomData<M>);

/// The marker of slots.
#[derive(Debug)]
pub struct OfSlot<M>(PhantomData<M>);

impl<P, S, F, M> IntoSlot<P, S, OfFunction<M>> for F
where
    P: Kind,
    S: Send + Sync + 'static,
    F: CallFn<P, S, M>,
    (): SlotInputs<P, F::Inputs, ()>,
    M: 'static,
{
    type Planned = Planned<F, Deletes, M>;

    fn into_slot(self) -> AnySlot<P, S> {
        IntoSlot::<P, S, OfSlot<M>>::into_slot(SlotExt::<P, M>::slot(self))
    }
}

impl<P, S, F, V, M> IntoSlot<P, S, OfSlot<M>> for Slot<P, F, V>
where
    P: Kind,
    S: Send + Sync + 'static,
    F: CallFn<P, S, M>,
    V: Verbs,
    M: 'static,
{
    type Planned = Planned<F, V, M>;

    fn into_slot(self) -> AnySlot<P, S> {
        let kind = KindInfo::of::<<F::Form as Form>::Kind>();
        AnySlot(Box::new(Typed { slot: self, resource: kind.resource().into(), kind, signature: PhantomData::<fn(M)> }))
    }
}

impl<P: Kind, S, L> Declaration<P, S, L> {
    /// Adds a slot.
    pub fn child<C: IntoSlot<P, S, M>, M>(mut self, slot: C) -> Declaration<P, S, (C::Planned, L)> {
        self.slots.push(slot.into_slot().0);
        self.planned()
    }

    /// Writes `observedGeneration` and the conditions `Ready`, `Reconciling` and `Stalled` into the status of the owner,
    /// at the end of each call. The function names the fields:
    ///
    /// ```
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    /// use kooper_children::declare;
    /// use kube::CustomResource;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
    /// #[kube(group = "example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus", schema = "disabled")]
    /// struct ShopSpec {}
    ///
    /// #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct ShopStatus {
    ///     conditions: Vec<Condition>,
    ///     observed_generation: Option<i64>,
    /// }
    ///
    /// let children = declare::<Shop, ()>().status(|status, fields| {
    ///     fields.conditions(&mut status.conditions).observed_generation(&mut status.observed_generation);
    /// });
    /// # assert!(children.build().is_ok());
    /// ```
    ///
    /// The handler can set all other fields and conditions with a `StatusWriter`. The values that it writes for these
    /// fields are replaced. No request is sent if the status has not changed.
    ///
    /// While the object is [paused](kooper_access::controller::Builder::pause), only the condition `Paused` is set.
    pub fn status<M: 'static>(
        mut self,
        fields: impl FnOnce(&mut P::Status, &mut StatusFields),
    ) -> Declaration<P, S, (Reports<M>, L)>
    where
        P: OwnerStatus<M>,
        S: Send + Sync + 'static,
    {
        self.mistake = self.mistake.or(status::check(fields));
        self.report = Some(status::report());
        self.planned()
    }

    /// Also prunes the children of slots that were removed from the program, if they are of this kind: once all slots
    /// are applied and ready, and children on which others depended after these. A child is known by its labels, so a
    /// function that was only renamed keeps its own. Children that are kept by default, adopted ones, and those of a
    /// slot with `keep` are kept with an Event. The kind needs the permissions to list, watch and delete it, with an
    /// ordered deletion also to patch. A cluster-scoped kind needs an [ordered deletion](Declared::deletion) if the owner
    /// is in a namespace.
    ///
    /// A version of the program that still has the slot creates them again: add a kind when no such version is left to
    /// run, or use leader election or shards, so that one replica at a time acts for an owner.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::prelude::*;
    /// use kooper_children::declare;
    ///
    /// let children = declare::<ConfigMap, ()>().previous_children::<Secret>().build()?;
    /// let controller = ConfigMap::controller("shops").handler(children.handler(async || {})).build()?;
    /// assert_eq!(children.graph().to_text(), "previous children: Secret\n");
    /// # let _ = controller;
    /// # Ok::<_, kooper::BoxError>(())
    /// ```
    pub fn previous_children<T: ChildKind>(mut self) -> Declaration<P, S, (PreviousChildren<T>, L)>
    where
        S: Send + Sync + 'static,
    {
        let kind = TypedKind::<T>::new();
        self.previous.push((kind.previous(), Box::new(kind)));
        self.planned()
    }

    fn planned<L2>(self) -> Declaration<P, S, L2> {
        let Self { slots, previous, report, mistake, planned: _ } = self;
        Declaration { slots, previous, report, mistake, planned: PhantomData }
    }

    /// Checks the slots.
    ///
    /// # Errors
    /// If a slot depends on one that is not declared or on itself, or on one of two that have the same function, if two
    /// have the same name or return different types of one resource, if flags contradict each other, or if the status is
    /// written under other names.
    pub fn build(self) -> Result<Declared<P, S, L>, GraphError> {
        let known: Vec<_> = self.slots.iter().map(|slot| slot.id().clone()).collect();
        let is_taken = |id: &FunctionId| self.slots.iter().any(|slot| slot.takes(id));
        for (at, one) in known.iter().enumerate() {
            let same = |other: &&FunctionId| other.is(one.id) && other.name != one.name;
            if let Some(other) = known[..at].iter().find(same).filter(|_| is_taken(one)) {
                return Err(GraphError::SameFunction { one: other.name.clone(), other: one.name.clone() });
            }
        }
        let name = |id: &FunctionId| known.iter().find(|known| known.is(id.id)).unwrap_or(id).name.clone();
        let (previous, previous_kinds): (Vec<_>, Vec<_>) = self.previous.into_iter().unzip();
        let graph = Graph::new(self.slots.iter().map(|slot| slot.spec(&name)).collect())?.with_previous(previous);
        // Slots of one kind have the same cache, which decodes its objects as one type.
        let (mut ids, mut kinds) = (Vec::new(), Vec::<Box<dyn DynKind<P, S>>>::new());
        for slot in &self.slots {
            let Some(kind) = slot.kind() else { continue };
            match ids.iter().zip(&kinds).find(|(_, known)| known.resource() == kind.resource()) {
                None => {
                    ids.push(slot.id());
                    kinds.push(kind);
                }
                Some((one, known)) if known.child_type() != kind.child_type() => {
                    let (one, other) = (one.name.clone(), slot.id().name.clone());
                    return Err(GraphError::DifferentTypes { one, other, resource: kind.resource().to_owned() });
                }
                Some(_) => {}
            }
        }
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let (is_ordered, has_daemon) = (AtomicBool::new(false), AtomicBool::new(false));
        for kind in previous_kinds {
            if kinds.iter().all(|known| known.resource() != kind.resource()) {
                kinds.push(kind);
            }
        }
        let executor = Executor { graph, slots: self.slots, kinds, report: self.report, is_ordered, has_daemon };
        Ok(Declared { executor: Arc::new(executor), planned: PhantomData })
    }
}

impl<P, S, L> Declared<P, S, L> {
    pub(crate) fn executor(&self) -> &Executor<P, S> {
        &self.executor
    }

    /// The graph of the slots.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.executor.graph
    }

    /// A handler that applies and prunes the children, and then calls this one, which can take
    /// [`Children`](crate::Children). It is also called if a slot is held or has failed. If a slot has failed, the call
    /// fails afterwards.
    #[must_use = "pass it to `Builder::handler`"]
    pub fn handler<H>(&self, handler: H) -> Applying<P, S, L, H> {
        Applying { executor: self.executor.clone(), handler: Arc::new(handler), planned: PhantomData }
    }

    /// A cleanup that releases the children that are kept, deletes the others in waves, the deepest first, and then
    /// calls this one. With it, children can be in other namespaces than their owner, and cluster-scoped.
    #[must_use = "pass it to `Builder::cleanup`"]
    pub fn deletion<H>(&self, cleanup: H) -> Deleting<P, S, L, H> {
        self.executor.is_ordered.store(true, Ordering::Relaxed);
        Deleting { executor: self.executor.clone(), cleanup: Arc::new(cleanup), planned: PhantomData }
    }
}

/// A handler that applies children first. [`Declared::handler`] makes it.
pub struct Applying<P, S, L, H> {
    executor: Arc<Executor<P, S>>,
    handler: Arc<H>,
    planned: PhantomData<fn() -> L>,
}

/// A cleanup that deletes children first. [`Declared::deletion`] makes it.
pub struct Deleting<P, S, L, H> {
    executor: Arc<Executor<P, S>>,
    cleanup: Arc<H>,
    planned: PhantomData<fn() -> L>,
}

/// Kept for a controller, in its extensions: `true` if its cleanup deletes the children in waves.
#[derive(Debug, Default)]
pub struct DeletesInWaves(pub bool);

/// The marker of handlers with declared children.
#[derive(Debug)]
pub struct WithChildren<A>(PhantomData<A>);

#[diagnostic::do_not_recommend]
impl<P, S, L, H, A> Handler<P, S, WithChildren<A>> for Applying<P, S, L, H>
where
    P: Kind,
    S: Send + Sync + 'static,
    L: PlanSlot<P, S> + 'static,
    H: Handler<P, S, A>,
{
    fn plan(plan: &mut Plan) {
        L::plan(plan);
        H::plan(plan);
    }

    fn extend(&self, additions: &mut Additions) {
        let executor = self.executor.clone();
        let existing: ReadChildren<P, S> = Arc::new(move |context: &Context<P, S>| executor.existing(context));
        additions.extensions.insert(Some(existing));
        additions.extensions.insert(self.executor.graph.clone());
        additions.observers.push(additions.extensions.get::<SlotMemory>());
        self.handler.extend(additions);
    }

    fn paused(&self) -> Option<HandlerFn<P, S>> {
        let report = self.executor.report.clone()?;
        Some(Box::new(move |context: Context<P, S>| {
            let report = report.clone();
            Box::pin(async move {
                let controller = context.controller();
                let why = controller.annotations.explain(&controller.controller);
                report(&context, Box::new(move |_, status| status::paused(status, why))).await?;
                Ok(Action::done())
            })
        }))
    }

    fn handle(&self, context: Context<P, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
        let (executor, handler) = (self.executor.clone(), self.handler.clone());
        Box::pin(async move {
            let pass = executor.apply(&context).await?;
            executor.begin(&context, &pass);
            // The status says so, and then the panic is that of the call.
            let handled = caught(handler.handle(context.clone())).await.unwrap_or_else(|panic| Err(panic.into()));
            let again = pass.again;
            let ended = executor.end_call(&context, pass, &handled).await;
            let delay = again.into_iter().chain(handled.as_ref().ok().and_then(Action::delay)).min();
            // A child that no retry makes acceptable does not stop a handler that polls, or the end of a pause.
            if let Err(error) = ended {
                let error = resumed(error);
                return Err(match (retry_hint(&*error, None), delay.filter(|delay| !delay.is_zero())) {
                    (RetryHint::Never, Some(delay)) => HandlerError::retry_after(delay, error).into(),
                    _ => error,
                });
            }
            // A delay of zero is the back-off of the handler.
            Ok(delay.map_or(handled.map_err(resumed)?, Action::requeue_after))
        })
    }
}

/// An error, or the panic that it stands for.
fn resumed(error: BoxError) -> BoxError {
    match error.downcast::<Panic>() {
        Ok(panic) => panic.resume(),
        Err(error) => error,
    }
}

#[diagnostic::do_not_recommend]
impl<P, S, L, H, A> Handler<P, S, WithChildren<A>> for Deleting<P, S, L, H>
where
    P: Kind,
    S: Send + Sync + 'static,
    L: PlanSlot<P, S> + 'static,
    H: Handler<P, S, A>,
{
    fn plan(plan: &mut Plan) {
        plan.release_children();
        L::plan(plan);
        L::plan_deletion(plan);
        H::plan(plan);
    }

    fn extend(&self, additions: &mut Additions) {
        additions.extensions.insert(DeletesInWaves(true));
        self.cleanup.extend(additions);
    }

    fn handle(&self, context: Context<P, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
        let (executor, cleanup) = (self.executor.clone(), self.cleanup.clone());
        Box::pin(async move {
            if executor.note_orphaning(&context).await? {
                return Ok(Action::requeue_after(NOTED_AGAIN));
            }
            let pass = executor.delete(&context).await?;
            executor.begin(&context, &pass);
            // Also if its deletion is refused.
            let reported = match pass.blocking.first() {
                Some(child) => executor.report_deletion(&context, child).await,
                None => Ok(()),
            };
            if let Some(error) = pass.error {
                return Err(error);
            }
            if pass.blocking.is_empty() {
                return cleanup.handle(context).await;
            }
            reported?;
            Ok(Action::requeue_after(pass.again.unwrap_or(WAVE_AGAIN)))
        })
    }
}

impl<P, S> PlanSlot<P, S> for () {
    fn plan(_: &mut Plan) {}
}

impl<P, S, C: PlanSlot<P, S>, L: PlanSlot<P, S>> PlanSlot<P, S> for (C, L) {
    fn plan(plan: &mut Plan) {
        L::plan(plan);
        C::plan(plan);
    }

    fn plan_deletion(plan: &mut Plan) {
        L::plan_deletion(plan);
        C::plan_deletion(plan);
    }
}

macro_rules! debugs {
    ($($name:ident<$($parameter:ident),*>, $graph:expr;)*) => {
        $(
            impl<$($parameter),*> fmt::Debug for $name<$($parameter),*> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(stringify!($name))?;
                    f.write_str(" ")?;
                    #[allow(clippy::redundant_closure_call, reason = "the expression needs the value")]
                    fmt::Debug::fmt(&($graph)(self), f)
                }
            }
        )*
    };
}

debugs! {
    AnySlot<P, S>, |this: &Self| this.0.id().name.clone();
    Declared<P, S, L>, |this: &Self| this.executor.graph.to_text();
    Applying<P, S, L, H>, |this: &Self| this.executor.graph.to_text();
    Deleting<P, S, L, H>, |this: &Self| this.executor.graph.to_text();
    Declaration<P, S, L>, |this: &Self| this.slots.iter().map(|slot| slot.id().name.clone()).collect::<Vec<_>>();
}
