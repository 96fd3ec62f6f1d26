//! The executor: it does the steps of plans with the capabilities of the runtime, until there are none.

mod deleting;
mod progress;
mod transitions;

use std::collections::{BTreeMap, BTreeSet};
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

use crate::children::{Children, Current, SlotChildren};
use crate::function::AnyObject;
use crate::graph::Graph;
use crate::kind::{DynKind, delete_params};
use crate::labels::DAEMON_FAILED;
use crate::memory::address;
use crate::observed::{ChildId, Observed, Owner, Run, SlotLabel, SlotProgress, Write};
use crate::plan::{Plan, SlotState, Step, plan, provided};
use crate::record::{ChildObject, Found, call, owner};
use crate::status::{HANDLER_FAILED, Report, has_failed, summarized};
use crate::typed::{Called, DynSlot};

use progress::Progress;

/// A reason to wait, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Wait(String);

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
    Box::new(Wait(why.into()))
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
pub(crate) struct Pass<P> {
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
enum Done {
    Called(usize, Result<Called, BoxError>),
    /// `None` for a child that is as it should be.
    Written(usize, ChildId, Result<Option<Found>, Refusal>),
    /// The labels that the child has now, and its version.
    Labelled(ChildId, SlotLabel, Result<(Option<SlotLabel>, Arc<str>), BoxError>),
    Deleted(ChildId, Result<(), BoxError>),
    Released(ChildId, Result<(), BoxError>),
}

/// A write that was refused.
enum Refusal {
    /// Only because an immutable field would change.
    Immutable(BoxError),
    /// A new object would be refused, too.
    Invalid(BoxError),
    /// For a reason that may pass.
    Other(BoxError),
}

impl<P: Kind, S: Send + Sync + 'static> Executor<P, S> {
    /// Applies and prunes the children.
    pub(crate) async fn apply(&self, context: &Context<P, S>) -> Result<Pass<P>, BoxError> {
        self.pass(context, &Owner::default()).await
    }

    /// Gives the children to the arguments of the call, and puts their summary into the statuses that it applies.
    pub(crate) fn begin(&self, context: &Context<P, S>, pass: &Pass<P>) {
        let extensions = call(context).extensions;
        extensions.insert(Current(Some(pass.children.clone())));
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
        pass: Pass<P>,
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

    async fn pass(&self, context: &Context<P, S>, owner: &Owner) -> Result<Pass<P>, BoxError> {
        let mut progress = self.observe(context)?;
        if owner.is_terminating {
            self.find_unseen(context, &mut progress).await?;
        }
        loop {
            let next = plan(owner, &self.graph, &progress.observed);
            if next.steps.is_empty() {
                self.remember(context, owner, &next, &progress);
                return Ok(self.end(context, next, progress));
            }
            let results = join_all(next.steps.iter().map(|step| self.execute(context, &progress, step))).await;
            results.into_iter().for_each(|done| self.note(context, &mut progress, done));
        }
    }

    /// The names of the slots, as labels have them.
    fn names(&self) -> Vec<Arc<str>> {
        self.graph.nodes().iter().map(|node| node.label.slot.clone()).collect()
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered.load(Ordering::Relaxed)
    }

    fn observe(&self, context: &Context<P, S>) -> Result<Progress, BoxError> {
        let mut observed = Observed { slots: vec![SlotProgress::default(); self.slots.len()], ..Observed::default() };
        let (memory, key) = (transitions::memory(context), context.key());
        // The labels of previous names are only read while the owner is being deleted.
        let is_deleted = owner(context).meta().deletion_timestamp.is_some();
        let known = if is_deleted { Arc::default() } else { memory.children(key) };
        let mut existing = Vec::new();
        let names = self.names();
        let is_ordered = self.is_ordered();
        for (slot, progress) in self.slots.iter().zip(&mut observed.slots) {
            progress.is_absent = slot.is_absent(context);
        }
        // Without its kind, no child exists any more.
        for kind in self.kinds.iter().filter(|kind| !kind.is_absent(context)) {
            existing.extend(kind.existing(context, &names, is_ordered, &known)?);
        }
        let is_known =
            |(.., object): &Found| object.cached().is_some_and(|object| known.get(address(object)).is_some());
        if existing.len() != known.len() || !existing.iter().all(is_known) {
            let read = |(_, child, object): &Found| {
                let object = object.cached()?;
                Some((address(object), (Arc::downgrade(object), child.clone())))
            };
            memory.read(key, Arc::new(existing.iter().filter_map(read).collect()));
        }
        let mut objects = BTreeMap::new();
        for (id, mut child, object) in existing {
            if let Some(slot) = self.graph.slot_of(&id, &child).filter(|_| !child.is_terminating) {
                let own = self.slots[slot].judge(&object);
                child.readiness = own.ok().flatten().unwrap_or(child.readiness);
            }
            observed.children.insert(id.clone(), child);
            objects.insert(id, object);
        }
        if is_ordered {
            memory.unseen.forget(key, |id| observed.children.contains_key(id));
        }
        Ok(Progress { observed, objects, wanted: BTreeMap::new(), error: None, pause: None, has_deleted: false })
    }

    fn execute<'a>(
        &'a self,
        context: &'a Context<P, S>,
        progress: &'a Progress,
        step: &'a Step,
    ) -> BoxFuture<'a, Done> {
        let missing = || BoxError::from("the object of a step is not known");
        match step {
            // Most passes have no other steps. The future of a write is large.
            Step::Call { slot } => ready(Done::Called(*slot, self.call(context, progress, *slot))).boxed(),
            Step::Apply { slot, child, label } => async move {
                let result = match progress.wanted.get(child).cloned().ok_or_else(missing) {
                    Ok(object) => self.write(context, progress, (*slot, child, object), label).await,
                    Err(error) => Err(Refusal::Other(error)),
                };
                Done::Written(*slot, child.clone(), result)
            }
            .boxed(),
            Step::Label { slot, child, label } => async move {
                let result = match progress.objects.get(child) {
                    Some(object) => self.slots[*slot].label(context, object, label).await,
                    None => Err(missing()),
                };
                Done::Labelled(child.clone(), label.clone(), result)
            }
            .boxed(),
            Step::Delete { child, uid, version, cause } => async move {
                let params = delete_params(uid, version.as_deref(), *cause);
                let result = match self.kind_of(child) {
                    Some(kind) => kind.delete(context, child, params).await,
                    None => Err(missing()),
                };
                Done::Deleted(child.clone(), result)
            }
            .boxed(),
            Step::Release { child, .. } => async move {
                let result = match (self.kind_of(child), progress.objects.get(child)) {
                    (Some(kind), Some(object)) => kind.release(context, object).await,
                    _ => Err(missing()),
                };
                Done::Released(child.clone(), result)
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
    ) -> Result<Option<Found>, Refusal> {
        let observed = progress.observed.children.get(child).map(|child| &*child.version);
        let memory = transitions::memory(context);
        // Only an ordered deletion reads it.
        let is_first = self.is_ordered() && observed.is_none() && memory.unseen.expect(context.key(), child);
        match self.slots[slot].apply(context, object.clone(), label, self.is_ordered(), observed).await {
            Err(error) if observed.is_some() => Err(self.probe(context, slot, object, error).await),
            Err(error) => {
                // An earlier write may have been done.
                if is_first && is_refused(&*error) {
                    memory.unseen.forget(context.key(), |id| id == child);
                }
                Err(Refusal::Other(error))
            }
            Ok(found) => Ok(found),
        }
    }

    /// Calls the function of a slot.
    fn call(&self, context: &Context<P, S>, progress: &Progress, slot: usize) -> Result<Called, BoxError> {
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
    async fn probe(&self, context: &Context<P, S>, slot: usize, child: AnyObject, error: BoxError) -> Refusal {
        // A dry run shows each write as if it was done.
        let refused = error.downcast_ref().filter(|_| is_invalid(&*error) && !call(context).is_dry_run());
        let Some(refused) = refused else { return Refusal::Other(error) };
        match self.slots[slot].probe(context, child, refused).await {
            Ok(true) => Refusal::Immutable(error),
            Ok(false) => Refusal::Other(error),
            Err(refused) if is_invalid(&*refused) => Refusal::Invalid(error),
            Err(unknown) => {
                tracing::debug!(slot = self.slots[slot].id().name, "the probe has failed: {}", chain(&*unknown));
                Refusal::Other(error)
            }
        }
    }

    fn kind_of(&self, child: &ChildId) -> Option<&dyn DynKind<P, S>> {
        self.kinds.iter().find(|kind| kind.resource() == &*child.resource).map(|kind| &**kind)
    }

    fn note(&self, context: &Context<P, S>, progress: &mut Progress, done: Done) {
        match done {
            Done::Called(slot, result) => self.called(context, progress, slot, result),
            Done::Written(slot, id, result) => {
                let write = match result {
                    Ok(None) => {
                        if let Some(child) = progress.objects.get(&id).and_then(ChildObject::cached) {
                            transitions::memory(context).settle((context.key(), slot), child);
                        }
                        Write::Applied
                    }
                    Ok(Some(found)) => {
                        self.corrected(context, progress, slot, &found);
                        let (id, mut child, object) = found;
                        // It is decoded.
                        let own = self.slots[slot].judge(&object).ok().flatten().filter(|_| !child.is_terminating);
                        child.readiness = own.unwrap_or(child.readiness);
                        progress.found((id, child, object));
                        Write::Applied
                    }
                    Err(Refusal::Immutable(error)) => {
                        let recreates = self.graph.nodes()[slot].spec.flags.recreate.is_some();
                        let is_protected = progress.observed.children.get(&id).is_some_and(|child| child.is_protected);
                        let replaces = recreates && !is_protected;
                        Write::Immutable(if replaces { public_chain(&*error) } else { progress.stall(error) })
                    }
                    Err(Refusal::Invalid(error)) => Write::Invalid(progress.stall(error)),
                    Err(Refusal::Other(error)) => Write::Refused(progress.fail(error)),
                };
                progress.written(&id, &write);
            }
            Done::Labelled(id, label, result) => match result {
                Ok((is, version)) if is.as_ref() == Some(&label) => {
                    progress.written(&id, &Write::Applied);
                    if let Some(child) = progress.observed.children.get_mut(&id) {
                        (child.label, child.version) = (is, version);
                    }
                }
                Ok(_) => {
                    let lost = format!("the labels of {id} were set, and are not there: a policy may remove them");
                    progress.refuse(id, lost.into());
                }
                Err(error) => progress.refuse(id, error),
            },
            Done::Deleted(id, Ok(())) => {
                progress.has_deleted = true;
                if let Some(child) = progress.observed.children.get_mut(&id) {
                    child.is_terminating = true;
                }
            }
            Done::Deleted(id, Err(error)) => progress.refuse(id, error),
            Done::Released(id, result) => {
                if let Err(error) = result {
                    progress.fail(error);
                }
                progress.observed.children.remove(&id);
            }
        }
    }

    fn called(&self, context: &Context<P, S>, progress: &mut Progress, slot: usize, result: Result<Called, BoxError>) {
        let run = match result {
            Ok(Called::Children(children)) => {
                let mut names = BTreeSet::new();
                let taken = children.iter().find(|(id, _)| progress.wanted.contains_key(id) || !names.insert(id));
                if let Some((id, _)) = taken {
                    let problem =
                        format!("{id} is also a child of another slot, or returned twice: give it another name");
                    Run::Failed(progress.fail(problem.into()))
                } else if let Some((pause, why)) = self.unstable(context, progress, slot, &children) {
                    progress.pause = progress.pause.into_iter().chain([pause]).min();
                    Run::Waits(why)
                } else {
                    progress.observed.slots[slot].desired = self.desired(context, progress, slot, &children);
                    progress.wanted.extend(children);
                    Run::Returned
                }
            }
            Ok(Called::External(id, found)) => {
                progress.observed.slots[slot].desired = vec![(id.clone(), Write::Applied)];
                if let Some((readiness, object)) = found {
                    progress.observed.external.insert(id.clone(), readiness);
                    progress.objects.insert(id, ChildObject::Decoded(object));
                }
                Run::Returned
            }
            Err(error) => match error.downcast::<Wait>() {
                Ok(wait) => Run::Waits(wait.0),
                Err(error) => Run::Failed(progress.fail(error)),
            },
        };
        progress.observed.slots[slot].run = run;
    }

    /// The children that the function of a slot has returned. One that is known to be like this is not applied again.
    fn desired(
        &self,
        context: &Context<P, S>,
        progress: &Progress,
        slot: usize,
        children: &[(ChildId, AnyObject)],
    ) -> Vec<(ChildId, Write)> {
        let label = &self.graph.nodes()[slot].label;
        let existing = |id: &ChildId| {
            let child = progress.observed.children.get(id)?;
            let is_own = !child.is_terminating && child.label.as_ref() == Some(label);
            progress.objects.get(id).filter(|_| is_own).and_then(ChildObject::cached)
        };
        let cached = children.iter().map(|(id, _)| existing(id));
        let settled = transitions::memory(context).settled((context.key(), slot), cached);
        let write = |is_settled: bool| if is_settled { Write::Applied } else { Write::Pending };
        children.iter().zip(settled).map(|((id, _), is_settled)| (id.clone(), write(is_settled))).collect()
    }

    fn end(&self, context: &Context<P, S>, plan: Plan, progress: Progress) -> Pass<P> {
        let Plan { slots: states, blocking, undeleted, .. } = plan;
        let state = |slot: usize| states.get(slot).cloned().unwrap_or(SlotState::Pending);
        let nodes = self.graph.nodes();
        let children = self.slots.iter().enumerate().map(|(index, slot)| {
            let ids = provided(&self.graph, &progress.observed, index);
            SlotChildren {
                id: slot.id().id,
                name: nodes[index].spec.name.clone(),
                state: state(index),
                counts: !nodes[index].spec.flags.not_ready,
                objects: ids.into_iter().filter_map(|id| progress.objects.get(id).cloned()).collect(),
            }
        });
        let children: Vec<_> = children.collect();
        for child in &blocking {
            tracing::debug!(%child, "waiting for its deletion");
        }
        let has_daemon = self.has_daemon.load(Ordering::Relaxed);
        let daemon = owner(context).annotations().get(DAEMON_FAILED).filter(|_| has_daemon).cloned();
        let (error, again) = progress.end(nodes.len());
        Pass { children: Children::new(children, daemon, undeleted), error, again, blocking }
    }
}
