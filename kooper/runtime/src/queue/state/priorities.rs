//! The priorities of keys, which a function of their objects decides.

use super::QueueState;
use crate::object::key::ObjectKey;

impl QueueState {
    /// Keys with a higher priority run first from now on. It is called before the first add.
    pub(in crate::queue) fn order_by_priority(&mut self) {
        self.ready.order_by_priority();
    }

    /// Returns `true` if several keys wait, and the priority of some is not known.
    pub(in crate::queue) fn lacks_priorities(&self) -> bool {
        self.ready.lacks_priorities()
    }

    /// Some of the waiting keys whose priority is not known. They count as known from now on: an object that
    /// changes before [`set_priority`](Self::set_priority) is asked for again.
    pub(in crate::queue) fn take_unprioritized(&mut self, most: usize) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        while keys.len() < most
            && let Some(id) = self.ready.pop_unprioritized()
        {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.prioritized = true;
                keys.push(entry.key.clone());
            }
        }
        keys
    }

    /// Sets the priority of a key. If it waits, it moves.
    pub(in crate::queue) fn set_priority(&mut self, key: &ObjectKey, priority: i32) {
        let Some(id) = self.entries.find(key) else { return };
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.priority != priority {
            self.ready.remove(id, entry);
            entry.priority = priority;
            self.ready.insert(id, entry);
        }
    }
}
