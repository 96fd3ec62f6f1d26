//! The executor: it does the steps of plans with the capabilities of the runtime, until there are none.

mod deleting;
mod owner_call;
mod progress;
mod transitions;

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, ready};
use kooper_access::AccessError;
use kooper_access::extract::Context;
use kooper_access::internal::ReservedStatus;
use kooper_runtime::internal::error::panicking::caught_call;
use kooper_runtime::internal::error::refusal::{ApiStatus, Cause};
use kooper_runtime::internal::error::{chain, is_conflict, public_chain};
use kooper_runtime::{Action, BoxError, Kind};
use kube::ResourceExt;

use crate::children::Children;
use crate::function::AnyObject;
use crate::graph::Graph;
use crate::kind::{DynKind, delete_params};
use crate::labels::DAEMON_FAILED;
use crate::observed::{ChildId, Owner, SlotLabel, SlotProgress};
use crate::plan::{Plan, Step, plan, provided};
use crate::record::{ChildObject, Found, call, owner};
use crate::status::{HANDLER_FAILED, Report, has_failed, summarized};
use crate::typed::{DynSlot, SlotOutput, UntypedSlot};

use owner_call::OwnerCall;
use progress::Progress;

/// A reason to wait, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WaitError(String);

/// The error of a child function that waits for something: the slot is held, without failure, and none of its children
/// is changed.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::prelude::*;
/// use kooper_children::wait;
///
/// fn password(owner: &ConfigMap) -> Result<Secret> {
///     let data = owner.data.clone().ok_or_else(|| wait("there are no data yet"))?;
///     Ok(Secret { string_data: Some(data), ..Secret::default() })
/// }
/// # assert!(password(&ConfigMap::default()).is_err());
/// ```
pub fn wait(why: impl Into<String>) -> BoxError {
    Box::new(WaitError(why.into()))
}

/// Returns whether the API server itself found an object invalid: not a webhook or a policy, which may allow it later.
fn is_invalid(error: &(dyn StdError + 'static)) -> bool {
    let status = error.downcast_ref().and_then(AccessError::status);
    let cause = ApiStatus::behind(error).map(|refusal| refusal.cause);
    status.is_some_and(|status| status.code == 422) && matches!(cause, Some(Cause::Immutable(_) | Cause::Other))
}

/// Returns whether it is certain that the write of a child was not done.
fn is_refused(error: &(dyn StdError + 'static)) -> bool {
    match error.downcast_ref() {
        Some(AccessError::Rejected(rejection)) => rejection.status.code < 500 && rejection.status.code != 409,
        Some(error) => matches!(
            error,
            AccessError::NotOurs { .. } | AccessError::OwnerTerminating(_) | AccessError::DeletedAgain(_)
        ),
        None => false,
    }
}

/// The slots of a controller.
pub(crate) struct Executor<P, S> {
    pub(crate) graph: Graph,
    pub(crate) slots: Vec<Box<dyn DynSlot<P, S>>>,
    /// The kinds of all children, also of those that are only pruned.
    pub(crate) kinds: Vec<Box<dyn DynKind<P, S>>>,
    /// Writes the status of the owner.
    pub(crate) report: Option<Report<P, S>>,
    /// Set with `deletion = ordered`, which also deletes children that Kubernetes does not delete with their owner.
    pub(crate) is_ordered: AtomicBool,
    /// Set if the failures of a daemon count for `Ready`.
    pub(crate) has_daemon: AtomicBool,
}

/// The end of a pass.
pub(crate) struct PassResult<P> {
    pub(crate) children: Children<P>,
    /// The first error.
    pub(crate) error: Option<BoxError>,
    /// When the owner is called again: a slot waits for the end of a pause, or a deletion for children that no cache
    /// has.
    pub(crate) again: Option<Duration>,
    /// The children that block the deletion of the owner.
    pub(crate) blocking: Vec<ChildId>,
}

/// The result of a step.
enum StepResult {
    Called(usize, Result<SlotOutput, BoxError>),
    /// `None` for a child that is as it should be.
    Written(usize, ChildId, Result<Option<Found>, WriteError>),
    /// The labels that the child has now, and its version.
    Labelled(ChildId, SlotLabel, Result<(Option<SlotLabel>, Arc<str>), BoxError>),
    Deleted(ChildId, Result<(), BoxError>),
    Released(ChildId, Result<(), BoxError>),
}

/// A write that was refused.
enum WriteError {
    /// Only because an immutable field would change.
    Immutable(BoxError),
    /// A new object would be refused, too.
    Invalid(BoxError),
    /// For a reason that may pass.
    Other(BoxError),
}

impl<P: Kind, S: Send + Sync + 'static> Executor<P, S> {
    /// Applies and prunes the children.
    pub(crate) async fn apply(&self, context: &Context<P, S>) -> Result<PassResult<P>, BoxError> {
        self.pass(context, &Owner::default()).await
    }

    /// Gives the children to the arguments of the call, and puts their summary into the statuses that it applies.
    pub(crate) fn begin(&self, context: &Context<P, S>, pass: &PassResult<P>) {
        let extensions = call(context).extensions;
        extensions.insert(Some(pass.children.clone()));
        if self.report.is_some() {
            let (owner, children) = (owner(context), pass.children.clone());
            let uid = owner.uid().unwrap_or_default();
            extensions.get::<ReservedStatus>().reserve(&uid, move |status| {
                // It is known at the end of the call whether the handler fails again, and what the deletion waits for.
                if owner.meta().deletion_timestamp.is_some() || has_failed(&status) {
                    return Ok(status);
                }
                summarized(&*owner, status, |conditions| children.report(conditions))
            });
        }
    }

    /// Writes the status after the handler. The errors of the handler and of the pass come before that of the write.
    pub(crate) async fn end_call(
        &self,
        context: &Context<P, S>,
        pass: PassResult<P>,
        handled: &Result<Action, BoxError>,
    ) -> Result<(), BoxError> {
        let mut errors = handled.as_ref().err().into_iter().chain(&pass.error);
        let has_conflict = errors.next().is_some_and(|error| is_conflict(&**error));
        // The call is repeated at once: this is no state of the owner.
        let is_repeated = has_conflict && context.controller().repeats_conflict(context.key());
        let reported = match &self.report {
            Some(report) if !is_repeated => {
                let (children, failure) = (pass.children, handled.as_ref().err().map(|error| public_chain(&**error)));
                report(
                    context,
                    Box::new(move |owner, status| {
                        summarized(owner, status, |conditions| {
                            children.report(conditions);
                            if let Some(failure) = failure {
                                conditions.not_ready(HANDLER_FAILED, failure);
                            }
                        })
                    }),
                )
                .await
            }
            _ => Ok(()),
        };
        match (handled, pass.error) {
            (Err(_), _) => Ok(()),
            (Ok(_), Some(error)) => Err(error),
            (Ok(_), None) => reported,
        }
    }

    async fn pass(&self, context: &Context<P, S>, state: &Owner) -> Result<PassResult<P>, BoxError> {
        let owner = owner(context);
        let of = self.untyped(context, &owner);
        let mut progress = self.observe(context, &of)?;
        if state.is_terminating {
            self.find_unseen(context, &mut progress).await?;
        }
        loop {
            let next = plan(state, &self.graph, &progress.observed);
            if next.steps.is_empty() {
                of.remember(state, &next, &progress);
                return Ok(self.end(&of, next, progress));
            }
            let results = join_all(next.steps.iter().map(|step| self.execute(context, &progress, step))).await;
            let call = |progress: &Progress, slot: usize| self.call(context, progress, slot);
            results.into_iter().for_each(|done| of.note(&mut progress, done, &call));
        }
    }

    /// The call for the owner of this context.
    fn untyped<'a>(&'a self, context: &'a Context<P, S>, owner: &'a P) -> OwnerCall<'a> {
        OwnerCall {
            controller: context.controller(),
            key: context.key(),
            owner: owner.meta(),
            graph: &self.graph,
            slots: self.slots.iter().map(|slot| &**slot as &dyn UntypedSlot).collect(),
            memory: transitions::memory(context),
        }
    }

    /// The names of the slots, as labels have them.
    fn names(&self) -> Vec<Arc<str>> {
        self.graph.nodes().iter().map(|node| node.label.slot.clone()).collect()
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered.load(Ordering::Relaxed)
    }

    fn observe(&self, context: &Context<P, S>, of: &OwnerCall<'_>) -> Result<Progress, BoxError> {
        // The labels of previous names are only read while the owner is being deleted.
        let is_deleted = of.owner.deletion_timestamp.is_some();
        let known = if is_deleted { Arc::default() } else { of.memory.children(of.key) };
        let (names, is_ordered, mut existing) = (self.names(), self.is_ordered(), Vec::new());
        let slots = self.slots.iter().map(|slot| slot.is_absent(context));
        let slots = slots.map(|is_absent| SlotProgress { is_absent, ..SlotProgress::default() }).collect();
        // Without its kind, no child exists any more.
        for kind in self.kinds.iter().filter(|kind| !kind.is_absent(context)) {
            existing.extend(kind.existing(context, &names, is_ordered, &known)?);
        }
        Ok(of.observed(slots, existing, &known, is_ordered))
    }

    fn execute<'a>(
        &'a self,
        context: &'a Context<P, S>,
        progress: &'a Progress,
        step: &'a Step,
    ) -> BoxFuture<'a, StepResult> {
        let missing = || BoxError::from("the object of a step is not known");
        match step {
            // Most passes have no other steps. The future of a write is large.
            Step::Call { slot } => ready(StepResult::Called(*slot, self.call(context, progress, *slot))).boxed(),
            Step::Apply { slot, child, label } => async move {
                let result = match progress.wanted.get(child).cloned().ok_or_else(missing) {
                    Ok(object) => self.write(context, progress, (*slot, child, object), label).await,
                    Err(error) => Err(WriteError::Other(error)),
                };
                StepResult::Written(*slot, child.clone(), result)
            }
            .boxed(),
            Step::Label { slot, child, label } => async move {
                let result = match progress.objects.get(child) {
                    Some(object) => self.slots[*slot].label(context, object, label).await,
                    None => Err(missing()),
                };
                StepResult::Labelled(child.clone(), label.clone(), result)
            }
            .boxed(),
            Step::Delete { child, uid, version, cause } => async move {
                let params = delete_params(uid, version.as_deref(), *cause);
                let result = match self.kind_of(child) {
                    Some(kind) => kind.delete(context, child, params).await,
                    None => Err(missing()),
                };
                StepResult::Deleted(child.clone(), result)
            }
            .boxed(),
            Step::Release { child, .. } => async move {
                let result = match (self.kind_of(child), progress.objects.get(child)) {
                    (Some(kind), Some(object)) => kind.release(context, object).await,
                    _ => Err(missing()),
                };
                StepResult::Released(child.clone(), result)
            }
            .boxed(),
        }
    }

    /// Applies a child of a slot.
    async fn write(
        &self,
        context: &Context<P, S>,
        progress: &Progress,
        (slot, child, object): (usize, &ChildId, AnyObject),
        label: &SlotLabel,
    ) -> Result<Option<Found>, WriteError> {
        let observed = progress.observed.children.get(child).map(|child| &*child.version);
        let memory = transitions::memory(context);
        // Only an ordered deletion reads it.
        let is_first = self.is_ordered() && observed.is_none() && memory.expectations.expect(context.key(), child);
        match self.slots[slot].apply(context, object.clone(), label, self.is_ordered(), observed).await {
            Err(error) if observed.is_some() => Err(self.probe(context, slot, object, error).await),
            Err(error) => {
                // An earlier write may have been done.
                if is_first && is_refused(&*error) {
                    memory.expectations.forget(context.key(), |id| id == child);
                }
                Err(WriteError::Other(error))
            }
            Ok(found) => Ok(found),
        }
    }

    /// Calls the function of a slot.
    fn call(&self, context: &Context<P, S>, progress: &Progress, slot: usize) -> Result<SlotOutput, BoxError> {
        let inputs = self.graph.nodes()[slot].inputs.iter().map(|&input| {
            let ids = provided(&self.graph, &progress.observed, input);
            ids.into_iter().filter_map(|id| progress.objects.get(id)).map(ChildObject::get).collect()
        });
        let inputs = inputs.collect::<Result<Vec<Vec<_>>, _>>()?;
        // The other slots go on.
        caught_call(|| self.slots[slot].call(context, slot, &inputs))?
    }

    /// Finds out why the write of a child that exists was refused. What is not known for sure may pass, so that nothing is
    /// deleted because of it.
    async fn probe(&self, context: &Context<P, S>, slot: usize, child: AnyObject, error: BoxError) -> WriteError {
        // A dry run shows each write as if it was done.
        let refused = error.downcast_ref().filter(|_| is_invalid(&*error) && !call(context).is_dry_run());
        let Some(refused) = refused else { return WriteError::Other(error) };
        match self.slots[slot].probe(context, child, refused).await {
            Ok(true) => WriteError::Immutable(error),
            Ok(false) => WriteError::Other(error),
            Err(refused) if is_invalid(&*refused) => WriteError::Invalid(error),
            Err(unknown) => {
                tracing::debug!(slot = self.slots[slot].id().name, "the probe has failed: {}", chain(&*unknown));
                WriteError::Other(error)
            }
        }
    }

    fn kind_of(&self, child: &ChildId) -> Option<&dyn DynKind<P, S>> {
        self.kinds.iter().find(|kind| kind.resource() == &*child.resource).map(|kind| &**kind)
    }

    fn end(&self, of: &OwnerCall<'_>, plan: Plan, progress: Progress) -> PassResult<P> {
        let children = of.children(&plan, &progress);
        let has_daemon = self.has_daemon.load(Ordering::Relaxed);
        let annotations = of.owner.annotations.as_ref().filter(|_| has_daemon);
        let daemon = annotations.and_then(|all| all.get(DAEMON_FAILED)).cloned();
        let (error, again) = progress.end(self.slots.len());
        PassResult { children: Children::new(children, daemon, plan.undeleted), error, again, blocking: plan.blocking }
    }
}
