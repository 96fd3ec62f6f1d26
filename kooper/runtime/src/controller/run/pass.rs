//! The run of a controller that handles each object once.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Runner;
use crate::controller::parts::Handlers;
use crate::controller::pass::{ControllerPass, LeaveOnDrop};

impl Runner {
    /// Handles each object once, after the caches of all controllers are complete. Ends
    /// with `shutdown`, which follows the last call of the last controller.
    pub(super) async fn run_once(mut self, pass: Arc<dyn ControllerPass>, shutdown: &CancellationToken) {
        let _leaving = LeaveOnDrop(pass.clone());
        let Some(handlers) = shutdown.run_until_cancelled(self.prepare(&*pass)).await else { return };
        self.starting.over();
        let Some(handlers) = handlers else { return };
        pass.started();
        if shutdown.run_until_cancelled(pass.all_started()).await.is_some() {
            self.run_workers(handlers, shutdown, &CancellationToken::new()).await;
        }
    }

    /// Fills the caches and builds the state; `None` if no object can be handled.
    async fn prepare(&mut self, pass: &dyn ControllerPass) -> Option<Handlers> {
        if !self.predict(pass).await {
            return None;
        }
        if let Err(problem) = self.open().await {
            pass.problem(format!("the retriever failed: {problem}"));
            return None;
        }
        let (is_complete, problems) = self.watching.tried().await;
        problems.into_iter().for_each(|problem| pass.problem(problem));
        if !is_complete {
            return None;
        }
        self.build().await.inspect_err(|problem| pass.problem(format!("`init` failed: {problem}"))).ok()
    }

    /// Reports to the pass what the prerequisite would do; `false` if there are no objects before it.
    async fn predict(&self, pass: &dyn ControllerPass) -> bool {
        match (&self.process.client, &self.prerequisite) {
            (Some(client), Some(prerequisite)) => prerequisite.predict(client, pass).await,
            _ => true,
        }
    }
}
