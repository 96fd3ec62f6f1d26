//! The priorities of keys, by a function of the user.

use tokio::task::yield_now;

use super::Runner;
use crate::executor::Task;

impl Runner {
    /// Calls the function for the objects of keys that wait for a worker, for as long as the task is kept. An object
    /// that a worker takes at once is not decoded for it, and a function that blocks delays no watch.
    pub(super) fn decide_priorities(&self) -> Option<Task<()>> {
        let priority = self.controller.parts.priority()?;
        let (queue, own) = (self.context.queue.clone(), self.watching.primary());
        queue.order_by_priority();
        Some(self.process.executor.spawn(async move {
            loop {
                for key in queue.unprioritized().await {
                    // One without an object is removed, or waits for its cleanup outside of the selector.
                    if let Some(object) = own.get(&key) {
                        queue.set_priority(&key, priority(&object));
                    }
                }
                yield_now().await;
            }
        }))
    }
}
