//! Cluster-scoped objects, a lease, a state, and permissions that only `rbac` lists.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kooper::__private::v1::Program;
use kooper::Controller;
use kooper::capability::PatchBody;
use kooper::kube::api::{Api, PostParams};
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use serde_json::json;

use crate::fresh;

pub(super) fn define(program: &mut Program) {
    program.add(Controller::builder::<PriorityClass>("priorities").labels("departs=yes").handler(priorities));
    program.add(Controller::builder::<PriorityClass>("ranks").labels("departs=yes").handler(fail));
    program.add(Controller::builder::<ResourceQuota>("limits").handler(fail));
    let election = LeaderElection::new()
        .lease_duration(Duration::from_secs(3))
        .renew_deadline(Duration::from_secs(2))
        .retry_period(Duration::from_secs(1));
    program.add(
        Controller::builder::<PersistentVolumeClaim>("claims")
            .leader_election(election)
            .previous_names(["volumes"])
            .metadata_only()
            .handler(async || tracing::info!("claims: done")),
    );
    program.add(
        Controller::builder::<ResourceQuota>("quotas")
            .rbac(["apps/controllerrevisions: create, delete", "nodes: get"])
            .init(find_class)
            .handler(quotas),
    );
}

async fn priorities(class: Arc<PriorityClass>, classes: Patcher<PriorityClass>, recorder: Recorder) -> Result {
    recorder.normal("Seen", fresh());
    recorder.normal("Seen", fresh());
    classes.patch_object(&class, PatchBody::merge(json!({"metadata": {"annotations": {"seen": fresh()}}}))).await?;
    tracing::info!("priorities: done");
    Ok(())
}

/// Keeps failing, which Events report.
async fn fail() -> Result {
    Err(HandlerError::retry_after(Duration::from_secs(1), fresh()).into())
}

struct Found(bool);

async fn find_class(classes: Getter<StorageClass>) -> Result<Found> {
    Ok(Found(classes.fetch(&ObjectKey::cluster_scoped("none")).await?.is_some()))
}

/// Sends requests that only `rbac` lists.
async fn quotas(quota: Arc<ResourceQuota>, client: Client, found: State<Found>) -> Result {
    let revisions: Api<ControllerRevision> = Api::namespaced(client.clone(), &quota.namespace().unwrap_or_default());
    let mut revision = ControllerRevision::default();
    revision.metadata.generate_name = Some("made-".to_owned());
    revision.data = Some(RawExtension(json!({})));
    let made = revisions.create(&PostParams::default(), &revision).await?;
    revisions.delete(&made.name_any(), &Default::default()).await?;
    let node = Api::<Node>::all(client).get_opt("none").await?;
    tracing::info!("quotas: done, {}", node.is_some() || found.0);
    Ok(())
}
