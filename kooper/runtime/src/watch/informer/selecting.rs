//! Keeps only the objects that are selected.

use std::future::pending;

use tokio::task::coop::consume_budget;
use tokio::task::yield_now;

use super::{ChangeSource, Informer};
use crate::object::Object;
use crate::watch::store::Change;

impl Informer {
    pub(super) fn keeps(&self, object: &Object) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.selects(object))
    }

    /// The same for an object that the source has sent.
    pub(super) fn accepts(&self, object: &Object) -> bool {
        let keeps = self.keeps(object);
        if let Some(selection) = self.selection.as_ref().filter(|_| !keeps) {
            selection.dropped();
        }
        keeps
    }

    /// Returns `true` if objects have joined the selection since the last list began.
    pub(super) fn has_joined(&self) -> bool {
        self.reselected.as_ref().is_some_and(|changes| *changes.borrow() != self.joined)
    }

    /// Drops the objects that have left the selection.
    pub(super) async fn drop_unselected(&mut self) {
        // Before the objects are asked for, so that those that leave meanwhile are dropped the next time.
        let left = self.selection.as_ref().and_then(|selection| selection.left());
        if left.is_some() && left == self.left {
            return;
        }
        self.left = left;
        for dropped in self.store.retain(|object| self.keeps(object)) {
            for object in dropped {
                self.sink.left(&object);
                consume_budget().await;
            }
            // All objects of a shard were looked at, even if none is dropped.
            yield_now().await;
        }
    }

    /// Ignores an object that is not selected, and drops it if the store has it.
    pub(super) fn skip(&self, object: Object) {
        let Some(known) = self.store.get(object.key()) else { return };
        let is_same = known.uid() == object.uid();
        self.store.remove(object);
        if is_same && !self.keeps(&known) {
            self.sink.left(&known);
        } else {
            // Another object has the name now, so the known one was deleted. Or the selection is the
            // same, and the object has changed.
            self.sink.changed(&Change::new(Some(known), None), ChangeSource::Watched);
        }
    }

    /// Reports that what joins the selection is not waited for, until it is dropped: the next attempt may be much later.
    pub(super) async fn report_unawaited(&self, is_listed: bool) {
        let mut changes = self.reselected.clone();
        while let (Some(selection), Some(changes)) = (&self.selection, &mut changes) {
            let joined = *changes.borrow_and_update();
            if is_listed {
                selection.listed(joined);
            } else {
                selection.tried(joined);
            }
            if changes.changed().await.is_err() {
                break;
            }
        }
        pending::<()>().await;
    }
}
