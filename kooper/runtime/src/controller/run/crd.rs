//! The CRD of a controller's kind, at the start.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use tokio::time::{sleep, timeout};

use super::{INIT_BACKOFF, Runner, Starting};
use crate::controller::crd::{Installer, lacking, older};
use crate::error::chain;

/// The timeout for reading the kinds that the API server serves.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Runner {
    /// Installs the CRD, in every replica, leader or not. If the CRD of the cluster
    /// cannot be replaced now, the controller works with it, is not ready, and
    /// retries.
    pub(super) async fn crd(&mut self, starting: &Starting) {
        let Some(client) = self.process.client.clone() else { return };
        let Some((crd, installs)) = self.controller.crd() else { return };
        if !installs {
            self.compare(client, crd);
            return;
        }
        let mut failures = 0;
        while let Err(error) = self.process.crds.install(&client, crd.clone()).await {
            if !error.leaves_crd() {
                self.pause(starting, "install_crd", &error.to_string(), &mut failures).await;
                continue;
            }
            let text = error.to_string();
            tracing::error!(
                controller = self.controller.name(),
                "`install_crd` failed: {text}; the controller works with the CRD of the cluster and is not ready"
            );
            let state = Arc::new(Starting::new(&self.context));
            state.failed("install_crd", &text);
            self.process.health.add(state.clone());
            self.background.spawn(retry(self.process.crds.clone(), client, crd, state, text));
            return;
        }
    }

    /// Logs a warning if the CRD of the cluster is older than the type.
    pub(super) fn compare(&mut self, client: Client, crd: CustomResourceDefinition) {
        if self.controller.own_retriever {
            return;
        }
        let (name, kind) = (self.controller.name().to_owned(), self.controller.kind.clone());
        let crds = self.process.crds.clone();
        self.background.spawn(async move {
            match timeout(TIMEOUT, lacking(&client, &kind, &crd)).await {
                Ok(Ok(fields)) if fields.is_empty() => {}
                Ok(Ok(fields)) => {
                    tracing::warn!(controller = name, "{}", older(&kind.resource(), &fields, &crds.by_user()));
                }
                Ok(Err(error)) => {
                    tracing::debug!(controller = name, "the CRD cannot be compared with the type: {}", chain(&error));
                }
                Err(_) => tracing::debug!(controller = name, "the CRD cannot be compared with the type: no response"),
            }
        });
    }
}

/// Retries until the CRD is installed. An error that stays the same is logged once.
async fn retry(
    crds: Arc<Installer>,
    client: Client,
    crd: CustomResourceDefinition,
    state: Arc<Starting>,
    mut logged: String,
) {
    let mut failures = 1;
    loop {
        sleep(INIT_BACKOFF.delay(failures)).await;
        let Err(error) = crds.install(&client, crd.clone()).await else { break };
        failures = failures.saturating_add(1);
        let text = error.to_string();
        state.failed("install_crd", &text);
        if text != logged {
            tracing::error!(controller = %state.context.controller, "`install_crd` failed: {text}");
            logged = text;
        }
    }
    tracing::info!(controller = %state.context.controller, "`install_crd` succeeded after a retry");
    state.over();
}
