//! Deletions, evictions, and other writes to one version of an object.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper::capability::PatchBody;
use kooper::prelude::*;
use kooper::{Controller, Evictor};
use kooper_tests::control_plane::ControlPlane;
use kooper_tests::wait::until;
use serde_json::json;

use crate::fixture::{Start, with_name};
use crate::live::{HandledStates, configmap};

#[test]
fn a_deletion_only_affects_the_object_with_the_expected_uid() {
    let namespace = "deletions";
    let Some(cluster) = ControlPlane::shared_in(namespace, [configmap(namespace, "one", "1")]) else { return };
    let seen = HandledStates::default();
    let handler = move |config: Arc<ConfigMap>,
                        configs: Deleter<ConfigMap>,
                        getter: Getter<ConfigMap>,
                        patcher: Patcher<ConfigMap>,
                        creator: Creator<ConfigMap>,
                        seen: State<HandledStates>| async move {
        let key = ObjectKey::namespaced(namespace, "two");
        let other: ConfigMap = with_name("two");
        let other = creator.create(&other).await?;
        let twice = creator.create(&other).await.unwrap_err();
        seen.note("twice", twice.code().unwrap_or_default().to_string());

        let mut stale = other.clone();
        stale.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
        configs.delete_object(&stale).await?;
        let tests = PatchBody::json(json!([{"op": "add", "path": "/data", "value": {}}]));
        assert!(patcher.patch_object(&stale, tests).await.unwrap_err().is_conflict());
        let refused = patcher.patch_object(&stale, PatchBody::merge(json!({"data": {"a": "b"}}))).await.unwrap_err();
        seen.note("stale", format!("{} {}", getter.fetch(&key).await?.is_some(), refused.is_conflict()));

        patcher
            .patch_object(&other, PatchBody::json(json!([{"op": "add", "path": "/data", "value": {"a": "b"}}])))
            .await?;
        let changed = configs.delete_unchanged(&other).await.unwrap_err();
        seen.note("changed", format!("{} {}", getter.fetch(&key).await?.is_some(), changed.is_conflict()));

        configs.delete_object(&other).await?;
        configs.delete(&key).await?;
        seen.note("deleted", getter.fetch(&key).await?.is_none().to_string());
        configs.delete_object(&config).await?;
        Ok::<_, kooper::BoxError>(())
    };
    let controller = Controller::builder::<ConfigMap>("deletions").namespaces([namespace]).fields("metadata.name=one");
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    seen.wait_for(&[("twice", "409"), ("stale", "true true"), ("changed", "true true"), ("deleted", "true")]);
    live.stop();
}

#[test]
fn a_job_is_deleted_with_its_pods_and_a_pod_is_evicted_by_its_uid() {
    let namespace = "dependents";
    let Some(cluster) = ControlPlane::shared_in(namespace, []) else { return };
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work"}]}});
    cluster.apply([
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": namespace, "name": "work"},
            "spec": {"template": template},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": "alone"},
            "spec": {"containers": [{"name": "work", "image": "work"}]},
        }),
    ]);
    let pods = || cluster.must(&["-n", namespace, "get", "pods", "-o", "name", "-l", "job-name=work"]);
    until("the job has a pod", || (!pods().is_empty()).then_some(()), pods);
    let seen = HandledStates::default();
    let handler = move |job: Arc<Job>,
                        jobs: Deleter<Job>,
                        getter: Getter<Pod>,
                        evictor: Evictor,
                        seen: State<HandledStates>| async move {
        let key = ObjectKey::namespaced(namespace, "alone");
        let Some(alone) = getter.fetch(&key).await? else { return Ok(()) };
        let mut successor = alone.clone();
        successor.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
        evictor.evict(&successor).await?;
        let remains = getter.fetch(&key).await?.is_some();
        evictor.evict(&alone).await?;
        evictor.evict(&alone).await?;
        seen.note("alone", format!("{remains} {}", getter.fetch(&key).await?.is_some()));
        jobs.delete_object(&job).await?;
        Ok::<_, kooper::BoxError>(())
    };
    let controller = Controller::builder::<Job>("dependents").namespaces([namespace]).workers(1).resync(None);
    let live = controller.state(seen.clone()).handler(handler).start_on(cluster);
    seen.wait_for(&[("alone", "true false")]);
    until("the pods of the job are gone", || pods().is_empty().then_some(()), pods);
    live.stop();
}
