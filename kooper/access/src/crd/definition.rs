//! The CRD of a controller's kind as the condition for its start.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper_runtime::error::chain;
use kooper_runtime::internal::controller::pass::ControllerPass;
use kooper_runtime::internal::controller::prerequisite::{Prerequisite, PrerequisiteError};
use kooper_runtime::internal::object::kind::KindInfo;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{InstallError, InstallPlan, Installer, lacking, older};

/// The timeout for reading the kinds that the API server serves.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A CRD that a controller installs, in every replica, leader or not.
pub(crate) struct Installed {
    pub(crate) crds: Arc<Installer>,
    pub(crate) crd: CustomResourceDefinition,
}

impl Prerequisite for Installed {
    fn name(&self) -> &'static str {
        "install_crd"
    }

    /// If the CRD of the cluster cannot be replaced now, the controller works with it.
    fn meet<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), PrerequisiteError>> {
        let consequence = "the controller works with the CRD of the cluster and is not ready";
        Box::pin(async move {
            self.crds.install(client, self.crd.clone()).await.map_err(|error| PrerequisiteError {
                problem: error.to_string(),
                consequence: error.leaves_crd().then_some(consequence),
            })
        })
    }

    fn predict<'a>(&'a self, client: &'a Client, pass: &'a dyn ControllerPass) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let name = self.crd.name_any();
            match self.crds.predict(client, self.crd.clone()).await {
                Ok(InstallPlan::Install) => {
                    pass.note(format!(
                        "the CRD {name} does not exist yet: `run` installs it, and there are no objects"
                    ));
                    return false;
                }
                Ok(InstallPlan::Replace(_)) => pass.note(format!("`run` replaces the CRD {name}")),
                Ok(InstallPlan::Keep { .. } | InstallPlan::Newer(..)) => {}
                Err(error @ InstallError::Forbidden { .. }) => pass.problem(format!("the CRD {name}: {error}")),
                Err(error) => {
                    pass.problem(format!("`run` would keep the CRD {name}, and would not be ready: {error}"));
                }
            }
            true
        })
    }
}

/// A CRD that users install. A warning is logged if that of the cluster is older than the type.
pub(crate) struct Compared {
    pub(crate) crds: Arc<Installer>,
    pub(crate) crd: CustomResourceDefinition,
    pub(crate) controller: String,
    pub(crate) kind: KindInfo,
    /// Ends with the controller.
    pub(crate) comparing: Mutex<JoinSet<()>>,
}

impl Compared {
    fn compare(&self, client: Client) {
        let Self { crds, crd, controller, kind, comparing } = self;
        let (crds, crd, controller, kind) = (crds.clone(), crd.clone(), controller.clone(), kind.clone());
        comparing.lock().spawn(async move {
            match timeout(TIMEOUT, lacking(&client, &kind, &crd)).await {
                Ok(Ok(fields)) if fields.is_empty() => {}
                Ok(Ok(fields)) => {
                    tracing::warn!(controller, "{}", older(&kind.resource(), &fields, &crds.by_user()));
                }
                Ok(Err(error)) => {
                    tracing::debug!(controller, "the CRD cannot be compared with the type: {}", chain(&error));
                }
                Err(_) => tracing::debug!(controller, "the CRD cannot be compared with the type: no response"),
            }
        });
    }
}

impl Prerequisite for Compared {
    fn name(&self) -> &'static str {
        "crd"
    }

    fn meet<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<(), PrerequisiteError>> {
        self.compare(client.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn predict<'a>(&'a self, client: &'a Client, _: &'a dyn ControllerPass) -> BoxFuture<'a, bool> {
        self.compare(client.clone());
        Box::pin(std::future::ready(true))
    }
}
