//! CronJobs: a job at each time of a schedule.

mod times;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;

use self::times::Times;
use super::children::{controlled, unless_gone};
use super::versions::Field as _;
use kooper_access::KindExt as _;
use kooper_access::capability::owned_by;
use kooper_access::{ConfigError, Controller, Creator, Deleter, Reader, StatusWriter};
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, Result};

/// The time for which a job was created.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(super) fn controller() -> Result<Controller, ConfigError> {
    CronJob::controller("cron-jobs").resync(None).owns(Job::all()).handler(reconcile).build()
}

async fn reconcile(
    cron: Arc<CronJob>,
    jobs: Reader<Job>,
    creator: Creator<Job>,
    deleter: Deleter<Job>,
    statuses: StatusWriter<CronJob>,
) -> Result<Action> {
    let Some(spec) = cron.spec.field() else { return Ok(Action::done()) };
    let now = clock::wall();
    let all = controlled(&cron, &jobs)?;
    clean_up(spec, &all, &deleter).await?;
    let mut status = CronJobStatus {
        active: Some(active(&cron, &all)),
        last_schedule_time: cron.status.as_ref().and_then(|status| status.last_schedule_time.clone()),
        last_successful_time: all
            .iter()
            .filter(|job| ended(job) == Some(true))
            .filter_map(|job| job.status.as_ref()?.completion_time.clone())
            .chain(cron.status.as_ref().and_then(|status| status.last_successful_time.clone()))
            .max_by_key(|time| time.0),
    };
    let mut wait = None;
    if spec.suspend != Some(true)
        && let Some(times) = Times::of(spec)?
    {
        let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let since = status.last_schedule_time.as_ref().map_or(created, |time| time.0.max(created));
        let last = times.last(since, now);
        let deadline = spec.starting_deadline_seconds.map(|seconds| now.as_second() - seconds);
        if let Some(due) = last.filter(|due| deadline.is_none_or(|deadline| due.as_second() > deadline))
            && allows(spec, &all, &status, &deleter).await?
        {
            match creator.create(&owned_by(&cron, job_of(&cron, spec, due))?).await {
                // The job of this time exists already.
                Err(error) if error.is_conflict() => {}
                Err(error) if error.is_namespace_terminating() => return Ok(Action::done()),
                created => status.active.get_or_insert_default().push(reference(&created?)),
            }
            status.last_schedule_time = Some(Time(due));
        }
        wait = times
            .after(last.unwrap_or(since))
            .map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default() + Duration::from_millis(50));
    }
    status.active = status.active.filter(|active| !active.is_empty());
    unless_gone(statuses.apply_status(&cron, &status).await)?;
    Ok(wait.map_or(Action::done(), Action::requeue_after))
}

/// Returns `true` if the job runs, and was created for a time of the schedule: one that a user has made of the template
/// counts for nothing.
fn is_active(job: &Job) -> bool {
    ended(job).is_none() && job.annotations().contains_key(SCHEDULED)
}

/// The jobs that run. The version of each stays that of its creation: a job that changes is no news.
fn active(cron: &CronJob, all: &[Arc<Job>]) -> Vec<ObjectReference> {
    let known = |job: &Job| {
        let mut known = cron.status.iter().flat_map(|status| status.active.iter().flatten());
        known.find(|one| one.uid == job.metadata.uid).cloned()
    };
    let running = all.iter().filter(|job| is_active(job));
    running.map(|job| known(job).unwrap_or_else(|| reference(job))).collect()
}

/// Returns `true` if a job may begin now. Deletes the jobs that it replaces.
async fn allows(spec: &CronJobSpec, all: &[Arc<Job>], status: &CronJobStatus, deleter: &Deleter<Job>) -> Result<bool> {
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") => Ok(status.active.as_ref().is_none_or(Vec::is_empty)),
        Some("Replace") => {
            for job in all.iter().filter(|job| is_active(job)) {
                deleter.delete_object(job).await?;
            }
            Ok(true)
        }
        _ => Ok(true),
    }
}

/// Returns whether the job has succeeded, or `None` while it runs.
fn ended(job: &Job) -> Option<bool> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let holds = |kind: &str| conditions.iter().any(|one| one.type_ == kind && one.status == "True");
    match (holds("Complete"), holds("Failed")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// Deletes the oldest jobs beyond the limits of the history.
async fn clean_up(spec: &CronJobSpec, all: &[Arc<Job>], deleter: &Deleter<Job>) -> Result<()> {
    let limits =
        [(true, spec.successful_jobs_history_limit.unwrap_or(3)), (false, spec.failed_jobs_history_limit.unwrap_or(1))];
    for (succeeded, limit) in limits {
        let mut past: Vec<_> = all.iter().filter(|job| ended(job) == Some(succeeded)).collect();
        past.sort_by_key(|job| job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0));
        let beyond = past.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for job in past.into_iter().take(beyond) {
            deleter.delete_object(job).await?;
        }
    }
    Ok(())
}

fn job_of(cron: &CronJob, spec: &CronJobSpec, due: Timestamp) -> Job {
    let template = spec.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), due.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron.name_any(), due.as_second() / 60)),
            namespace: cron.namespace(),
            labels: meta.labels,
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_that_changes_is_active_as_before() {
        let job = |version: &str| -> Arc<Job> {
            let annotations = json!({SCHEDULED: "2026-01-01T00:00:00Z"});
            let metadata =
                json!({"name": "backup-1", "uid": "1", "resourceVersion": version, "annotations": annotations});
            Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
        };
        let mut cron = CronJob::default();
        let created = active(&cron, &[job("1")]);
        assert_eq!(created.first().and_then(|one| one.resource_version.as_deref()), Some("1"));
        cron.status.get_or_insert_default().active = Some(created.clone());
        assert_eq!(active(&cron, &[job("2")]), created);
    }

    #[test]
    fn a_job_that_a_user_has_made_of_the_template_is_not_active() {
        let annotations = json!({"cronjob.kubernetes.io/instantiate": "manual"});
        let manual = json!({"metadata": {"name": "now", "uid": "1", "annotations": annotations}});
        let manual: Arc<Job> = Arc::new(serde_json::from_value(manual).unwrap());
        assert!(active(&CronJob::default(), &[manual]).is_empty());
    }
}
