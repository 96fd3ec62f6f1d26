//! The run of a controller that handles each object once.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::{InitContext, Runner};
use crate::controller::parts::Handlers;
use crate::controller::pass::{ControllerPass, Leaving};
use crate::error;

impl Runner {
    /// Handles each object once, after the caches of all controllers are complete. Ends
    /// with `shutdown`, which follows the last call of the last controller.
    pub(super) async fn run_once(mut self, pass: Arc<dyn ControllerPass>, shutdown: &CancellationToken) {
        let _leaving = Leaving(pass.clone());
        let Some(handlers) = shutdown.run_until_cancelled(self.prepare(&*pass)).await else { return };
        self.starting.over();
        if handlers.is_none() {
            pass.give_up();
        }
        pass.started();
        let Some(handlers) = handlers else { return };
        if shutdown.run_until_cancelled(pass.all_started()).await.is_some() {
            self.run_workers(handlers, shutdown, &CancellationToken::new()).await;
        }
    }

    /// Fills the caches and builds the state; `None` if no object can be handled.
    async fn prepare(&mut self, pass: &dyn ControllerPass) -> Option<Handlers> {
        if !self.predict(pass).await {
            return None;
        }
        let opening =
            self.watching.open(&self.controller, &self.process, &self.enqueuer, &self.tombstones, &self.undecodable);
        if let Some(problem) = problem(AssertUnwindSafe(opening).catch_unwind().await) {
            pass.problem(format!("the retriever failed: {problem}"));
            return None;
        }
        let tried = self.watching.tried().await;
        tried.problems.into_iter().for_each(|problem| pass.problem(problem));
        if !tried.complete {
            return None;
        }
        let context = InitContext { controller: self.context.clone(), states: self.states.clone() };
        let problem = match self.build(context).await {
            Ok(Ok(handlers)) => return Some(handlers),
            Ok(Err(error)) => error::chain(&*error),
            Err(error) => error.text(),
        };
        pass.problem(format!("`init` failed: {problem}"));
        None
    }

    /// Tells the pass what the prerequisite would do; `false` if there are no objects before it.
    async fn predict(&self, pass: &dyn ControllerPass) -> bool {
        match (&self.process.client, &self.prerequisite) {
            (Some(client), Some(prerequisite)) => prerequisite.predict(client, pass).await,
            _ => true,
        }
    }
}

/// Why something failed, if it did.
pub(super) fn problem(ended: std::thread::Result<Result<(), error::BoxError>>) -> Option<String> {
    match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error::chain(&*error)),
        Err(panic) => Some(format!("it panicked: {}", error::panic_text(&*panic))),
    }
}
