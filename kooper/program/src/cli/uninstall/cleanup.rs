//! The run of the controllers that clean up.

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::super::run::{GRACE, operator};
use super::finalized::{FinalizedObjects, FinalizerAction};
use super::retry::settled;
use super::{PAUSE, Uninstall, UninstallError};
use crate::metrics::Prometheus;
use kooper_runtime::internal::call::finalizer::Retirement;
use kooper_runtime::internal::error::chain;
use kooper_runtime::{BoxError, Health};

/// The controllers that clean up.
struct Running {
    stop: CancellationToken,
    /// The reason if they end by themselves.
    ended: oneshot::Receiver<String>,
    stopped: JoinHandle<()>,
}

impl Uninstall<'_> {
    /// Runs the controllers until no object has a finalizer of the program.
    pub(super) async fn clean_up(&self, cleaning: &[FinalizedObjects], metrics: Prometheus) -> Result<(), BoxError> {
        let running = self.operate(cleaning, metrics)?;
        let ended = tokio::select! {
            released = self.wait(cleaning) => released,
            error = running.ended => Err(UninstallError::Ended { error: error.unwrap_or_default() }.into()),
            () = self.interrupted.cancelled() => Err(UninstallError::Stopped.into()),
            () = sleep_until(self.deadline + GRACE) => {
                return Err(UninstallError::Silent { timeout: self.timeout() }.into());
            }
        };
        running.stop.cancel();
        // The Leases are released.
        drop(timeout(self.invocation.settings.drain_timeout().saturating_add(GRACE), running.stopped).await);
        ended
    }

    /// Waits until no object has a finalizer of the program, and does meanwhile what
    /// needs no cleanup.
    async fn wait(&self, cleaning: &[FinalizedObjects]) -> Result<(), BoxError> {
        loop {
            let begin = Instant::now();
            let mut left = Vec::new();
            for finalized in cleaning {
                let found = match finalized.prepare(&self.client).await {
                    Ok(()) => finalized.find(&self.client).await,
                    Err(error) => Err(error),
                };
                match settled(found)? {
                    Ok(found) if found.count == 0 => {}
                    Ok(found) => left.push(format!("{} still have the finalizer: {found}", finalized.resource())),
                    Err(problem) => {
                        left.push(format!("{} cannot be read or changed: {problem}", finalized.resource()));
                    }
                }
            }
            if left.is_empty() {
                return Ok(());
            }
            // Long lists are requested rarely.
            let (pause, left) = ((begin.elapsed() * 5).max(PAUSE), left.join("; "));
            self.pause(pause, UninstallError::NotCleanedUp { timeout: self.timeout(), left }).await?;
        }
    }

    /// Runs the controllers that have objects to clean up, for nothing else.
    fn operate(&self, cleaning: &[FinalizedObjects], metrics: Prometheus) -> Result<Running, BoxError> {
        let mut operated = Vec::new();
        for mut controller in self.invocation.controllers()? {
            let Some(finalized) = cleaning.iter().find(|finalized| finalized.controller == controller.name()) else {
                continue;
            };
            let retirement = match finalized.action {
                FinalizerAction::Release => continue,
                FinalizerAction::ReleaseLive | FinalizerAction::Delete => Retirement::Deleted,
                FinalizerAction::CleanUp => Retirement::All,
            };
            controller.retire(retirement);
            controller.set_own_namespace(&self.place.namespace);
            if finalized.namespaces.is_empty() {
                controller.set_namespaces(Vec::new());
            }
            operated.push(controller);
        }
        let (stop, none) = (CancellationToken::new(), operated.is_empty());
        let operator = operator(self.invocation, operated, Some(self.connection), metrics, Health::default());
        let _context = self.runtime.enter();
        let operator = operator.build()?;
        let (end, ended) = oneshot::channel();
        let token = stop.clone();
        let running = async move {
            // Without objects to clean up there is nothing to run.
            let result = if none {
                token.cancelled().await;
                Ok(())
            } else {
                operator.run(token.clone()).await
            };
            if !token.is_cancelled() {
                let error = result.err().map_or("every controller has ended".to_owned(), |error| chain(&error));
                drop(end.send(error));
                token.cancelled().await;
            }
        };
        Ok(Running { stop, ended, stopped: self.runtime.spawn(running.boxed()) })
    }
}
