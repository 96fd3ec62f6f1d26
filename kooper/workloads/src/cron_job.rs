//! CronJobs: a job at each time of a schedule.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::tz::TimeZone;
use kube::ResourceExt as _;

use super::children::{controlled, unless_gone};
use super::versions::Field as _;
use kooper_access::KindExt as _;
use kooper_access::capability::owned_by;
use kooper_access::{Controller, Creator, Deleter, Reader, StatusWriter};
use kooper_grammar::cron::Schedule;
use kooper_runtime::internal::clock;
use kooper_runtime::{Action, ConfigError, Result};

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
        active: Some(all.iter().filter(|job| ended(job).is_none()).map(|job| reference(job)).collect()),
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
        && let Ok(schedule) = Schedule::parse(&spec.schedule)
    {
        let zone = spec.time_zone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get)?;
        let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let since = status.last_schedule_time.as_ref().map_or(created, |time| time.0.max(created));
        if let Some(due) = last_due(&schedule, since, now, &zone, spec.starting_deadline_seconds)
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
        let next = clock::scheduled(&schedule, now, &zone);
        wait = next
            .map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default() + Duration::from_millis(50));
    }
    status.active = status.active.filter(|active| !active.is_empty());
    unless_gone(statuses.apply_status(&cron, &status).await)?;
    Ok(wait.map_or(Action::done(), Action::requeue_after))
}

/// The last time for which no job was created yet. Those before are missed.
fn last_due(
    schedule: &Schedule,
    since: Timestamp,
    now: Timestamp,
    zone: &TimeZone,
    deadline: Option<i64>,
) -> Option<Timestamp> {
    let earliest = deadline.and_then(|deadline| Timestamp::from_second(now.as_second() - deadline).ok());
    let mut due = None;
    let mut at = earliest.map_or(since, |earliest| since.max(earliest));
    // As many as Kubernetes looks at.
    for _ in 0..100 {
        at = clock::scheduled(schedule, at, zone).filter(|at| *at <= now)?;
        due = Some(at);
        if clock::scheduled(schedule, at, zone).is_none_or(|next| next > now) {
            break;
        }
    }
    due
}

/// Returns `true` if a job may begin now. Deletes the jobs that it replaces.
async fn allows(spec: &CronJobSpec, all: &[Arc<Job>], status: &CronJobStatus, deleter: &Deleter<Job>) -> Result<bool> {
    let is_active = status.active.as_ref().is_some_and(|active| !active.is_empty());
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") => Ok(!is_active),
        Some("Replace") => {
            for job in all.iter().filter(|job| ended(job).is_none()) {
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
