//! The deletion of an owner, and the questions before its finalizer is removed.

use std::time::Duration;

use kooper_access::Patcher;
use kooper_access::capability::PatchBody;
use kooper_access::extract::{Argument, Context};
use kooper_access::internal::has_marked;
use kooper_runtime::internal::error::chain;
use kooper_runtime::{BoxError, HandlerError, Kind};
use kube::ResourceExt;
use serde_json::json;

use super::progress::Progress;
use super::transitions::{is_noted, is_orphaning, memory};
use super::{Executor, PassResult};
use crate::children::Children;
use crate::labels::ORPHANS;
use crate::observed::{ChildId, Owner};
use crate::plan::plan;
use crate::record::{call, owner};
use crate::status::summarized;

/// The end of a list enqueues no owner that waits for it.
const UNLISTED_AGAIN: Duration = Duration::from_secs(5);

/// The event of a child that exists comes soon, unless the watch is broken.
const UNSEEN_AGAIN: Duration = Duration::from_secs(5);

impl<P: Kind, S: Send + Sync + 'static> Executor<P, S> {
    /// Notes on an owner that its children outlive it, before anything else is done: this process may end before they are
    /// released. Returns `true` if the call ends here. The next one has the note, and `cleanup` is not repeated because of
    /// it.
    pub(crate) async fn note_orphaning(&self, context: &Context<P, S>) -> Result<bool, BoxError> {
        let owner = owner(context);
        if !is_orphaning(context) || is_noted(&*owner) {
            return Ok(false);
        }
        let patcher = <Patcher<P> as Argument<P, S, (P, ())>>::extract(context);
        let patch = PatchBody::merge(json!({"metadata": {"annotations": {(ORPHANS): owner.uid()}}}));
        patcher.patch_object(&*owner, patch).await?;
        // There is no next one in a dry run.
        Ok(!call(context).is_dry_run())
    }

    /// Releases children, and deletes those of the next wave.
    pub(crate) async fn delete(&self, context: &Context<P, S>) -> Result<PassResult<P>, BoxError> {
        self.untyped(context, &owner(context)).warn_unordered();
        let is_ordered = !is_orphaning(context);
        // Children in a namespace that is not listed would be taken for gone.
        if let Some((kind, place)) = self.kinds.iter().find_map(|kind| Some((kind, kind.unlisted(context)?))) {
            let kind = kind.resource();
            let waits =
                format!("waits for the list of {kind} in {place}: children may be there; `/readyz?verbose` says why");
            return Err(HandlerError::retry_after(UNLISTED_AGAIN, waits).into());
        }
        let pass = self.pass(context, &Owner { is_terminating: true, is_ordered }).await?;
        if is_ordered && pass.blocking.is_empty() && pass.error.is_none() {
            self.check_marked(context).await?;
        }
        Ok(pass)
    }

    /// The children of an owner that are deleted after it. If they cannot be read, none of the slots is known.
    pub(crate) fn existing(&self, context: &Context<P, S>) -> Children<P> {
        let owner = owner(context);
        let of = self.untyped(context, &owner);
        match self.observe(context, &of) {
            Ok(progress) => {
                let state = Owner { is_terminating: true, is_ordered: false };
                self.end(&of, plan(&state, &self.graph, &progress.observed), progress).children
            }
            Err(error) => {
                tracing::debug!("the children are not read: {}", chain(&*error));
                Children::new(Vec::new(), None, None)
            }
        }
    }

    /// Adds the children that this process has written and no cache has shown: the watch is late, or the response was
    /// lost. Without them their wave would count as gone. A watch that works has shown all of them before this call, so
    /// that nothing is asked.
    pub(super) async fn find_unseen(&self, context: &Context<P, S>, progress: &mut Progress) -> Result<(), BoxError> {
        let memory = memory(context);
        let expectations = memory.expectations.of(context.key());
        // In a dry run the caches have all writes.
        if expectations.is_empty() || call(context).is_dry_run() {
            return Ok(());
        }
        let names = self.names();
        for kind in self.kinds.iter().filter(|kind| !kind.is_absent(context)) {
            let of_kind: Vec<_> = expectations.iter().filter(|child| *child.resource == *kind.resource()).collect();
            for found in kind.list_children(context, &names, &of_kind).await? {
                if !progress.observed.children.contains_key(&found.0) {
                    progress.found(found);
                    // The watch is late, so its deletion may cause no call.
                    progress.pause = Some(UNSEEN_AGAIN);
                }
            }
        }
        memory.expectations.forget(context.key(), |child| !progress.observed.children.contains_key(child));
        Ok(())
    }

    /// Waits for the events of children that Kubernetes does not delete with their owner: the write of one may be so
    /// recent that no cache has it, or its response was lost.
    async fn check_marked(&self, context: &Context<P, S>) -> Result<(), BoxError> {
        // In a dry run they were not deleted.
        if call(context).is_dry_run() {
            return Ok(());
        }
        let has_some = has_marked(context.extensions(), &owner(context).uid().unwrap_or_default());
        for kind in self.kinds.iter().filter(|kind| !kind.is_absent(context)) {
            if let Some(child) = kind.find_marked(context, has_some).await? {
                let waits = format!("waits for the event of {child}");
                return Err(HandlerError::retry_after(UNSEEN_AGAIN, waits).into());
            }
        }
        Ok(())
    }

    /// Writes into the status which child the deletion of the owner waits for.
    pub(crate) async fn report_deletion(&self, context: &Context<P, S>, child: &ChildId) -> Result<(), BoxError> {
        // An owner that is not selected any more stays, and nothing would correct its status afterwards.
        let is_deleted = owner(context).meta().deletion_timestamp.is_some();
        let Some(report) = self.report.as_ref().filter(|_| is_deleted) else { return Ok(()) };
        let why = format!("waits until {child} is gone");
        let compose = move |owner: &P, status| {
            summarized(owner, status, |conditions| {
                conditions.reconciling("Deleting", why);
            })
        };
        report(context, Box::new(compose)).await
    }
}
