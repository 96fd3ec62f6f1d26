//! Versions of the program, while one replaces another.
//!
//! A replica answers a function that its version does not have with 404, and the request fails. So a
//! new function is registered when no older replica is called any more, and a version removes what it
//! does not have before it is ready.

use std::time::Duration;

use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Configuration, RegisterError, Registration, apply, configuration, live};

/// The Deployment controller's number of the version that is rolled out.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The grace period of pods that have none.
const GRACE: Duration = Duration::from_secs(30);

/// The time that an API server may take to learn a configuration: one took 150 ms.
const LEARNED: Duration = Duration::from_secs(2);

/// The Deployment while it is wholly updated.
#[derive(Debug, Default)]
pub(crate) struct RollOut(Mutex<Option<Updated>>);

#[derive(Debug)]
struct Updated {
    since: Instant,
    is_complete: bool,
}

impl RollOut {
    /// Returns whether no older replica is called any more: those that end serve for a while, and
    /// API servers keep their connections to them until then. A Deployment that was deleted and created
    /// again has the first revision, too: older replicas may be called if a function is registered.
    pub(super) fn is_complete(&self, deployment: &DynamicObject, is_registered: bool) -> bool {
        let mut known = self.0.lock();
        if !is_updated(deployment) {
            *known = None;
            return false;
        }
        let updated = known.get_or_insert_with(|| Updated { since: Instant::now(), is_complete: false });
        let is_first = !is_registered && deployment.annotations().get(REVISION).is_some_and(|revision| revision == "1");
        updated.is_complete |= is_first || updated.since.elapsed() >= grace(deployment);
        updated.is_complete
    }
}

fn is_updated(deployment: &DynamicObject) -> bool {
    let (spec, status) = (&deployment.data["spec"], &deployment.data["status"]);
    let count = |of: &Value| of.as_i64().unwrap_or_default();
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    status["observedGeneration"].as_i64() >= deployment.metadata.generation
        && count(&status["updatedReplicas"]) == wanted
        && count(&status["replicas"]) == wanted
}

fn grace(deployment: &DynamicObject) -> Duration {
    let seconds = deployment.data["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    seconds.map_or(GRACE, Duration::from_secs)
}

impl Registration {
    /// Removes the entries of functions that this version does not have.
    pub(crate) async fn withdraw(&self, client: &Client) -> Result<(), RegisterError> {
        let owner = self.owner_reference(client).await?;
        let configuration =
            |mutates| Configuration { registration: self, mutates, rolled_out: false, owner: owner.clone() };
        let validating = withdraw(client, &configuration(false)).await?;
        let mutating = withdraw(client, &configuration(true)).await?;
        if validating || mutating {
            tracing::info!("functions of another version have been removed from the configurations of the webhooks");
            sleep(LEARNED).await;
        }
        Ok(())
    }
}

/// Returns whether something was removed.
async fn withdraw(client: &Client, configuration: &Configuration<'_>) -> Result<bool, RegisterError> {
    let live = live(client, configuration).await?;
    if !configuration.has_unknown(&live) {
        return Ok(false);
    }
    let (bundle, armed) = (configuration::bundle(&live), configuration::armed(&live));
    apply(client, configuration, live, &bundle, &armed).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};

    use super::*;

    fn of(observed: i64, updated: i32, replicas: i32) -> DynamicObject {
        let mut deployment = Deployment::default();
        deployment.metadata.generation = Some(7);
        deployment.spec = Some(DeploymentSpec { replicas: Some(2), ..DeploymentSpec::default() });
        deployment.status = Some(DeploymentStatus {
            observed_generation: Some(observed),
            updated_replicas: Some(updated),
            replicas: Some(replicas),
            ..DeploymentStatus::default()
        });
        serde_json::from_value(serde_json::to_value(deployment).expect("an object")).expect("an object")
    }

    #[test]
    fn a_deployment_is_updated_when_all_its_replicas_are_of_the_newest_version() {
        assert!(is_updated(&of(7, 2, 2)));
        assert!(!is_updated(&of(6, 2, 2)), "its controller has not seen the new version");
        assert!(!is_updated(&of(7, 1, 2)));
        assert!(!is_updated(&of(7, 2, 3)), "an old replica is there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_roll_out_is_complete_when_the_grace_period_of_the_old_replicas_is_over_and_the_first_one_at_once() {
        let (updated, updating) = (of(7, 2, 2), of(7, 1, 2));
        let roll_out = RollOut::default();
        assert!(!roll_out.is_complete(&updated, false));
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(!roll_out.is_complete(&updated, true));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(roll_out.is_complete(&updated, true));
        assert!(!roll_out.is_complete(&updating, true));
        assert!(!roll_out.is_complete(&updated, true), "it begins again");
        let mut first = updated;
        first.annotations_mut().insert(REVISION.to_owned(), "1".to_owned());
        let roll_out = RollOut::default();
        assert!(roll_out.is_complete(&first, false), "there is no older version");
        assert!(roll_out.is_complete(&first, true), "its own functions are registered now");
        assert!(!RollOut::default().is_complete(&first, true), "the Deployment may have been created again");
    }
}
