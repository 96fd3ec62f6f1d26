//! The condition for the start of a controller, until it is met.

use std::sync::Arc;

use futures_util::FutureExt;
use kube::Client;
use tokio::time::sleep;

use super::{INIT_BACKOFF, Runner, Starting};
use crate::controller::prerequisite::{Prerequisite, PrerequisiteError};

impl Runner {
    /// Meets the prerequisite. If the controller can start without, it does, is not ready, and
    /// it is retried.
    pub(super) async fn meet_prerequisite(&mut self) {
        let Some(client) = self.process.client.clone() else { return };
        let Some(prerequisite) = self.prerequisite.clone() else { return };
        let (name, mut failures) = (prerequisite.name(), 0);
        while let Err(PrerequisiteError { problem, consequence }) = prerequisite.meet(&client).await {
            let Some(consequence) = consequence else {
                self.pause(name, &problem, &mut failures).await;
                continue;
            };
            tracing::error!(controller = self.controller.name(), "`{name}` failed: {problem}; {consequence}");
            let state = Arc::new(Starting::new(&self.context));
            state.failed(name, &problem);
            self.process.health.add(state.clone());
            self.background.spawn(retry(prerequisite, client, state, problem).boxed());
            return;
        }
    }
}

/// Retries until the prerequisite is met. An error that stays the same is logged once.
async fn retry(prerequisite: Arc<dyn Prerequisite>, client: Client, state: Arc<Starting>, mut logged: String) {
    let (name, mut failures) = (prerequisite.name(), 1);
    loop {
        sleep(INIT_BACKOFF.delay(failures)).await;
        let Err(PrerequisiteError { problem, .. }) = prerequisite.meet(&client).await else { break };
        failures = failures.saturating_add(1);
        state.failed(name, &problem);
        if problem != logged {
            tracing::error!(controller = %state.context.controller, "`{name}` failed: {problem}");
            logged = problem;
        }
    }
    tracing::info!(controller = %state.context.controller, "`{name}` succeeded after a retry");
    state.over();
}
