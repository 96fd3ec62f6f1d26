//! The deletion of an owner: children are released or deleted in waves, the deepest first.
//!
//! It needs the labels of the children alone, so that it also works when the functions fail, or when the owner no
//! longer decodes. A child without an owner reference that has lost them is as deep as the deepest slot of its kind.

use super::{Cause, Plan, Step};
use crate::graph::{Graph, Node};
use crate::observed::{Child, ChildId, Observed, Owner};

pub(super) fn plan(owner: &Owner, graph: &Graph, observed: &Observed) -> Plan {
    let (steps, blocking, kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut plan = Plan { steps, slots: Vec::new(), blocking, kept, undeleted: None };
    let mut waves = Vec::new();
    for (id, child) in observed.children.iter().filter(|(_, child)| !child.is_foreign) {
        let is_kept = match graph.slot_of(id, child) {
            Some(slot) => graph.nodes()[slot].spec.flags.keep,
            // The slot may have had another name or kind, and have kept it. So may one whose label was lost.
            None => {
                child.label.as_ref().is_some_and(|label| label.keep)
                    || of_kind(graph, &id.resource).any(|node| node.spec.flags.keep)
            }
        };
        let depth = match &child.label {
            Some(label) => label.depth,
            // Kubernetes does not delete it.
            None if child.is_apart => of_kind(graph, &id.resource).map(Node::depth).max().unwrap_or_default(),
            None if is_kept || child.is_protected => 0,
            None => continue,
        };
        // A child without an owner reference is known by its label alone. A later pass, which no longer sees the
        // finalizer `orphan`, would delete it.
        if !owner.is_ordered || is_kept || child.is_protected {
            plan.steps.push(Step::Release { child: id.clone(), uid: child.uid.clone() });
        } else {
            waves.push((depth, id, child));
        }
    }
    let deepest = waves.iter().map(|(depth, ..)| *depth).max();
    #[cfg(test)]
    let is_turn = |depth: u32| Some(depth) == deepest || super::mistakes::Mistake::WaveSkipped.is_planted();
    #[cfg(not(test))]
    let is_turn = |depth: u32| Some(depth) == deepest;
    for (depth, id, child) in waves {
        if is_turn(depth) {
            plan.blocking.push(id.clone());
            plan.steps.extend(delete(id, child, depth).filter(|_| !observed.refused.contains_key(id)));
        }
    }
    plan
}

fn of_kind<'a>(graph: &'a Graph, resource: &'a str) -> impl Iterator<Item = &'a Node> {
    graph.nodes().iter().filter(move |node| *node.spec.resource == *resource)
}

/// A child may change while it ends, so that its version does not count.
fn delete(id: &ChildId, child: &Child, depth: u32) -> Option<Step> {
    let Child { uid, is_terminating, .. } = child;
    let delete = || Step::Delete { child: id.clone(), uid: uid.clone(), version: None, cause: Cause::Wave(depth) };
    (!is_terminating).then(delete)
}
