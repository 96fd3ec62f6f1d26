//! What is told about a pass: the log, Kubernetes Events and the counts of the metric, each on transitions only.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kooper_access::extract::Context;
use kooper_runtime::metrics::Gauge;
use kooper_runtime::{Kind, Note, ObjectKey};
use kube::ResourceExt;
use tokio::time::Instant;

use super::{Executor, Progress};
use crate::function::AnyObject;
use crate::memory::{Digest, Memory, Verdict};
use crate::observed::ChildId;
use crate::plan::{Plan, SlotState, provided};
use crate::typed::owner;

impl<P: Kind, S: Send + Sync + 'static> Executor<P, S> {
    /// Returns for how long the children of a slot are not applied because their bodies keep changing, and why.
    pub(super) fn unstable(
        &self,
        context: &Context<P, S>,
        progress: &Progress,
        slot: usize,
        children: &[(ChildId, AnyObject)],
    ) -> Option<(Duration, String)> {
        let mut digest = Digest::default();
        children.iter().for_each(|(_, child)| self.slots[slot].write(child, &mut digest));
        let owner = owner(context);
        let verdict = memory(context).body(
            &ObjectKey::of(&*owner),
            slot,
            digest.0.finish(),
            self.inputs(progress, slot, &*owner),
            Instant::now(),
        );
        let Verdict::Pause(pause, is_new) = verdict else { return None };
        let why = "its children keep changing, although its inputs do not: they are applied again after ten minutes";
        if is_new {
            let name = &self.graph.nodes()[slot].spec.name;
            self.event(context, true, "Unstable", format!("{name}: {why}"));
            tracing::warn!(slot = name, "{why}");
        }
        Some((pause, why.to_owned()))
    }

    /// A digest of what the function of a slot was called with.
    fn inputs(&self, progress: &Progress, slot: usize, owner: &P) -> u64 {
        let mut hasher = DefaultHasher::new();
        (owner.meta().generation, owner.labels(), owner.annotations()).hash(&mut hasher);
        for &input in &self.graph.nodes()[slot].inputs {
            for id in provided(&self.graph, &progress.observed, input) {
                progress.observed.children.get(&id).map(|child| (&child.uid, &child.version)).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Notes the states of the slots, and tells what has changed.
    pub(super) fn remember(&self, context: &Context<P, S>, plan: &Plan) {
        let (memory, key) = (memory(context), ObjectKey::of(&*owner(context)));
        memory.1.get_or_init(|| self.register(context, &memory));
        if plan.slots.is_empty() {
            // The owner is being deleted.
            return memory.forget(&key);
        }
        for (slot, state) in plan.slots.iter().enumerate() {
            let name = &self.graph.nodes()[slot].spec.name;
            if memory.state(&key, slot, state) {
                match state.reason() {
                    Some(why) => tracing::info!(slot = name, state = state.name(), "{why}"),
                    None => tracing::debug!(slot = name, state = state.name(), "the slot has another state"),
                }
            }
            let kept: BTreeSet<_> = plan.kept.iter().filter(|(of, _)| *of == slot).map(|(_, id)| id.clone()).collect();
            for id in memory.kept(&key, slot, kept) {
                let text = format!(
                    "{name}: {id} is no longer returned by its function, and is kept: write `prune` to delete such children"
                );
                self.event(context, false, "Kept", text);
            }
        }
    }

    /// Registers a gauge for each slot and state.
    fn register(&self, context: &Context<P, S>, memory: &Arc<Memory>) {
        let controller = context.controller();
        for (index, node) in self.graph.nodes().iter().enumerate() {
            for state in SlotState::NAMES {
                let gauge = Gauge::ChildState { slot: node.spec.name.clone(), state };
                let memory = memory.clone();
                #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
                let read = move || memory.count(index, state) as f64;
                if let Err(error) = controller.metrics.register_gauge(&controller.controller, gauge, Box::new(read)) {
                    tracing::debug!("a metric is missing: {error}");
                }
            }
        }
    }

    fn event(&self, context: &Context<P, S>, warning: bool, reason: &str, text: String) {
        let mut note = Note::warning(owner(context).object_ref(&()), reason, "Apply", text);
        note.warning = warning;
        context.controller().events.publish(note);
    }
}

fn memory<P, S>(context: &Context<P, S>) -> Arc<Memory> {
    context.controller().extensions.get()
}
