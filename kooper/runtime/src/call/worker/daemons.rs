//! Calls that run until their objects change.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Workers;
use crate::call::attempt::{Attempt, CallResult, Failure};
use crate::leader::shard::ShardTerm;
use crate::object::key::ObjectKey;

/// The running daemons of a controller, by the keys of their objects.
#[derive(Debug)]
pub(crate) struct Daemons {
    running: Mutex<HashMap<ObjectKey, Arc<CancellationToken>>>,
    /// A daemon that runs for so long has recovered.
    steady: Duration,
}

/// A daemon, from before its object is read until its call has ended.
pub(super) struct Daemon {
    daemons: Arc<Daemons>,
    key: ObjectKey,
    changed: Arc<CancellationToken>,
}

impl Daemons {
    pub(crate) fn new(steady: Duration) -> Self {
        Self { running: Mutex::default(), steady }
    }

    /// Notes a daemon. Its object is read afterwards, so each later change cancels it.
    pub(super) fn begin(self: &Arc<Self>, key: &ObjectKey) -> Daemon {
        let changed = Arc::<CancellationToken>::default();
        self.running.lock().insert(key.clone(), changed.clone());
        Daemon { daemons: self.clone(), key: key.clone(), changed }
    }

    /// Cancels the daemon of an object that has changed.
    pub(crate) fn cancel(&self, key: &ObjectKey) {
        if let Some(changed) = self.running.lock().get(key) {
            changed.cancel();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let mut running = self.daemons.running.lock();
        // The next one may have begun.
        if running.get(&self.key).is_some_and(|changed| Arc::ptr_eq(changed, &self.changed)) {
            running.remove(&self.key);
        }
    }
}

impl Workers {
    /// Runs a daemon without its worker, which takes the next key. The daemon's key stays locked, so no other one
    /// begins before this one has ended.
    pub(super) fn run_daemon(
        self: &Arc<Self>,
        daemon: Daemon,
        attempt: Attempt,
        token: CancellationToken,
        shard: Option<&Arc<dyn ShardTerm>>,
        future: BoxFuture<'static, CallResult>,
    ) {
        let workers = self.clone();
        // A daemon does not end by itself, so its shard would never be given away.
        let leaving = shard.map(|shard| shard.leaving().clone()).unwrap_or_default();
        let term = shard.map(|shard| shard.ended().clone()).unwrap_or_default();
        let contained = async move {
            let run = async {
                let over = async {
                    tokio::select! {
                        () = term.cancelled() => Failure::Ended,
                        () = leaving.cancelled() => Failure::Ended,
                        () = workers.tasks.stopping.cancelled() => Failure::Stopped,
                        () = daemon.changed.cancelled() => Failure::Changed,
                    }
                };
                let ended = {
                    let mut running = pin!(workers.run_call(&attempt, token, over, future));
                    tokio::select! {
                        ended = &mut running => ended,
                        () = sleep(daemon.daemons.steady) => {
                            let released = workers.controller.queue.clear_failures(&attempt.key);
                            workers.observer.each(|one| one.recovered(&attempt, released));
                            running.await
                        }
                    }
                };
                drop(daemon);
                let Some(ended) = ended else { return };
                // It begins again if the shard stays nevertheless, or has come back.
                let again = (leaving.is_cancelled() || term.is_cancelled()).then_some(Duration::ZERO);
                workers.finish_detached(&attempt, &ended, again);
            };
            workers.contain(&attempt.key, attempt.ticket, run).await;
        };
        self.tasks.tracker.spawn(contained.boxed());
    }
}
