//! A stored child, and the edits of it by other clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::histories::{EDITED, Edit, KEPT};
use crate::graph::Graph;
use crate::observed::{Child, ChildId, SlotLabel};
use crate::readiness::Readiness;

/// The names of children.
pub(super) type Names = BTreeSet<Arc<str>>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    pub(super) child: Child,
    /// Another client has created it.
    pub(super) is_adopted: bool,
    /// The children that its content refers to.
    pub(super) refers: Names,
    /// `true` if its labels do not name a slot of this program any more, because of an edit.
    pub(super) is_stray: bool,
}

impl Stored {
    pub(super) fn edit(&mut self, graph: &Graph, id: &ChildId, edit: Edit) {
        let child = &mut self.child;
        match edit {
            Edit::Protected(is_protected) => child.is_protected = is_protected,
            Edit::Unlabelled => (child.label, child.is_foreign, self.is_stray) = (None, false, true),
            Edit::Depth(depth) => {
                if let Some(label) = &mut child.label {
                    label.depth = depth;
                }
            }
            Edit::Renamed(depth) => {
                let keep = says_keep(child);
                (child.label, self.is_stray) = (Some(SlotLabel { slot: "former".into(), depth, keep }), true);
                child.is_foreign = false;
            }
            Edit::OfOtherKind(slot) => {
                let node = &graph.nodes()[slot % graph.nodes().len()];
                if node.spec.resource != id.resource {
                    let label = SlotLabel { keep: says_keep(child), ..node.label.clone() };
                    (child.label, child.is_foreign, self.is_stray) = (Some(label), false, true);
                }
            }
            Edit::Taken => (child.label, child.is_foreign, self.is_stray) = (None, true, true),
            Edit::Unreadable(is_unreadable) => {
                child.is_unreadable = is_unreadable;
                if is_unreadable {
                    child.readiness = Readiness::Waiting("it does not decode".to_owned());
                }
            }
            Edit::Unadopted => (child.is_kept, self.is_adopted) = (*id.resource == *KEPT, false),
            Edit::Content => self.refers = BTreeSet::from([EDITED.into()]),
        }
    }
}

/// Returns whether the slot of a child keeps its children, by its labels.
pub(super) fn says_keep(child: &Child) -> bool {
    child.label.as_ref().is_some_and(|label| label.keep)
}
