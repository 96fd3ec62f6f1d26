//! Keys from outside the cluster.

use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;

use super::Runner;
use crate::controller::parts::Trigger;
use crate::error;
use crate::executor::Task;
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Lane, Urgency};

impl Runner {
    /// Enqueues external keys, for as long as the controller runs.
    pub(super) fn listen(&self, shutdown: &CancellationToken) -> Vec<Task<()>> {
        let mut tasks = Vec::new();
        for source in self.controller.sources.iter() {
            let Some(mut triggers) = source.lock().take() else { continue };
            let (enqueuer, shutdown) = (self.enqueuer.clone(), shutdown.clone());
            let handled = self.watching.handled(&self.controller.config);
            let name = self.context.controller.clone();
            let taking = async move {
                while let Some(Some(trigger)) = shutdown.run_until_cancelled(triggers.next()).await {
                    match trigger {
                        Trigger::Key(key) => enqueuer.wake(&key, Lane::Event, Reason::External, Urgency::Now),
                        Trigger::All => {
                            // They do not delay the changes of objects.
                            let wake =
                                |key: &ObjectKey| enqueuer.wake(key, Lane::Background, Reason::External, Urgency::Soon);
                            handled.each(|_| true, wake).await;
                        }
                    }
                }
                if !shutdown.is_cancelled() {
                    let controller = &*enqueuer.controller.controller;
                    tracing::warn!(controller, "a source of keys has ended: it produces no more keys");
                }
            };
            let taking = AssertUnwindSafe(taking).catch_unwind().map(move |ended| {
                if let Err(panic) = ended {
                    let text = error::panic_text(&*panic);
                    tracing::error!(controller = %name, "a source of keys panicked: {text}; it produces no more keys");
                }
            });
            tasks.push(self.process.executor.spawn(taking));
        }
        tasks
    }
}
