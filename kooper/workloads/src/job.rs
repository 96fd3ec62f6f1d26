//! Jobs: pods until enough of them have succeeded.

mod pod;
mod progress;
mod tracking;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};

use self::progress::Progress;
use super::children::{self, adopters, claim, key_of, remove_finalizer};
use kooper_access::KindExt as _;
use kooper_access::{ConfigError, Controller, Creator, Deleter, Patcher, Reader, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, Result};

pub(super) use self::tracking::controller as tracking;

/// The finalizer of pods that are not counted yet.
const TRACKED: &str = "batch.kubernetes.io/job-tracking";

pub(super) fn controller() -> Result<Controller, ConfigError> {
    Job::controller("jobs")
        .resync(None)
        .owns(Pod::all())
        .watches::<Pod, _, _>(adopters::<Job, Pod>)
        .when(|job| {
            job.spec.as_ref().is_some_and(|spec| {
                spec.managed_by.is_none() || spec.managed_by.as_deref() == Some("kubernetes.io/job-controller")
            })
        })
        .handler(reconcile)
        .build()
}

async fn reconcile(
    job: Arc<Job>,
    reader: Reader<Pod>,
    patcher: Patcher<Pod>,
    creator: Creator<Pod>,
    deleter: Deleter<Pod>,
    jobs: Deleter<Job>,
    statuses: StatusWriter<Job>,
) -> Result<Action> {
    let Some(spec) = &job.spec else { return Ok(Action::done()) };
    let now = clock::wall();
    if progress::finished(job.status.as_ref()).is_some() {
        return expire(&job, spec, now, &jobs).await;
    }
    let pods = claim(&job, &reader, &patcher).await?;
    let progress = Progress::of(&job, spec, &pods, now);
    for pod in &progress.release {
        remove_finalizer(pod, TRACKED, &patcher).await?;
    }
    let status = progress.status(&job, spec, now);
    let is_over = progress::finished(Some(&status)).is_some() || progress.verdict.is_some();
    children::unless_gone(statuses.apply_status(&job, &status).await)?;
    for pod in &progress.delete {
        // A pod that is superfluous is no failure; those of a job that ends are counted.
        if !is_over {
            remove_finalizer(pod, TRACKED, &patcher).await?;
        }
        deleter.delete_object(pod).await?;
    }
    if !is_over {
        for index in progress.create.iter().copied() {
            match creator.create(&pod::of_job(&job, spec, index)?).await {
                Err(error) if error.is_namespace_terminating() => break,
                created => drop(created?),
            }
        }
    }
    Ok(progress.deadline_in.map_or(Action::done(), Action::requeue_after))
}

/// Deletes a finished job when its time is over.
async fn expire(job: &Arc<Job>, spec: &JobSpec, now: Timestamp, jobs: &Deleter<Job>) -> Result<Action> {
    let Some(ttl) = spec.ttl_seconds_after_finished else { return Ok(Action::done()) };
    let finished = progress::finished(job.status.as_ref()).unwrap_or(now);
    let left = i64::from(ttl) - now.duration_since(finished).as_secs();
    if left > 0 {
        return Ok(Action::requeue_after(Duration::from_secs(left.unsigned_abs())));
    }
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        preconditions: Some(Preconditions { uid: job.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    jobs.delete_with(&key_of(&job.metadata), params).await?;
    Ok(Action::done())
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKED)
}

#[cfg(test)]
mod tests {
    use kooper_apiserver::ApiServer;
    use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::Simulation;
    use crate::pods::phase;

    /// Waits until the pods are as expected.
    async fn until(pods: &Api<Pod>, expected: impl Fn(&[Pod]) -> bool) {
        for _ in 0..1000 {
            if expected(&pods.list(&ListParams::default()).await.unwrap().items) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the pods are not as expected: {:#?}", pods.list(&ListParams::default()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_a_suspended_job_stops_is_no_failure() {
        let server = ApiServer::start().await.unwrap();
        let simulation = Simulation::visible(&server);
        let jobs = Api::<Job>::default_namespaced(server.client());
        let pods = Api::<Pod>::default_namespaced(server.client());
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "task:1"}]}});
        let job = json!({"metadata": {"name": "task"}, "spec": {"backoffLimit": 0, "template": template}});
        jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
        until(&pods, |pods| pods.iter().any(|pod| phase(pod) == "Running")).await;
        let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
        jobs.patch("task", &PatchParams::default(), &suspend).await.unwrap();
        until(&pods, <[Pod]>::is_empty).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let status = jobs.get("task").await.unwrap().status.unwrap_or_default();
        let conditions: Vec<_> = status.conditions.iter().flatten().map(|one| one.type_.as_str()).collect();
        assert_eq!((status.failed, conditions.as_slice()), (None, &["Suspended"][..]));
        simulation.stop().await;
    }
}
