//! The progress of a job, and the next steps for its pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::is_tracked;
use super::pod::{index_of, is_indexed};
use crate::pods::{count, is_active, is_ready, is_terminal, nonzero, phase, sort_for_deletion};

/// The pods of a job.
pub(super) struct Progress {
    succeeded: i32,
    failed: i32,
    /// The finished pods that are counted, but still tracked.
    uncounted: UncountedTerminatedPods,
    indexes: BTreeSet<i32>,
    active: usize,
    ready: usize,
    terminating: usize,
    /// Counted pods that are to be let go.
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// The pods to create, by index in an indexed job.
    pub(super) create: Vec<Option<i32>>,
    pub(super) verdict: Option<Verdict>,
    pub(super) deadline_in: Option<Duration>,
}

/// The outcome of a job, with its reason and message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    succeeded: bool,
    reason: &'static str,
    message: &'static str,
}

/// When the job has finished; `None` while it runs.
pub(super) fn finished(status: Option<&JobStatus>) -> Option<Timestamp> {
    let conditions = status?.conditions.as_ref()?;
    let end =
        conditions.iter().find(|one| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True")?;
    Some(end.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

fn verdict_of(status: &JobStatus) -> Option<Verdict> {
    let holds =
        |kind: &str| status.conditions.iter().flatten().find(|one| one.type_ == kind && one.status == "True").cloned();
    if holds("SuccessCriteriaMet").is_some() {
        return Some(COMPLETE);
    }
    let target = holds("FailureTarget")?;
    Some(if target.reason.as_deref() == Some(LATE.reason) { LATE } else { EXHAUSTED })
}

const COMPLETE: Verdict =
    Verdict { succeeded: true, reason: "CompletionsReached", message: "Reached expected number of succeeded pods" };
const EXHAUSTED: Verdict = Verdict {
    succeeded: false,
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const LATE: Verdict =
    Verdict { succeeded: false, reason: "DeadlineExceeded", message: "Job was active longer than specified deadline" };

impl Progress {
    pub(super) fn of(job: &Job, spec: &JobSpec, pods: &[Arc<Pod>], now: Timestamp) -> Self {
        let known = job.status.clone().unwrap_or_default();
        let before = known.uncounted_terminated_pods.clone().unwrap_or_default();
        let mut progress = Self {
            succeeded: known.succeeded.unwrap_or_default(),
            failed: known.failed.unwrap_or_default(),
            uncounted: UncountedTerminatedPods::default(),
            indexes: ranges(known.completed_indexes.as_deref().unwrap_or_default()),
            active: pods.iter().filter(|pod| is_active(pod)).count(),
            ready: pods.iter().filter(|pod| is_active(pod) && is_ready(pod)).count(),
            terminating: pods
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_some() && !is_terminal(pod))
                .count(),
            release: Vec::new(),
            delete: Vec::new(),
            create: Vec::new(),
            verdict: verdict_of(&known),
            deadline_in: None,
        };
        // An indexed job may shrink: then the indexes beyond count no more.
        progress.indexes.retain(|index| calls_for(spec, *index));
        progress.count(spec, pods, &before);
        let suspended = spec.suspend == Some(true);
        if progress.verdict.is_none() {
            progress.verdict = progress.judge(spec, &known, suspended, now);
        }
        if progress.verdict.is_some() || suspended {
            progress.delete = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        } else {
            progress.plan(spec, pods);
        }
        progress
    }

    /// Counts each finished pod once: it is noted as uncounted, then let go, then counted for good.
    fn count(&mut self, spec: &JobSpec, pods: &[Arc<Pod>], before: &UncountedTerminatedPods) {
        let is_in = |list: &Option<Vec<String>>, uid: &String| list.iter().flatten().any(|one| one == uid);
        for (succeeds, uids) in [(true, &before.succeeded), (false, &before.failed)] {
            for uid in uids.iter().flatten() {
                let held = pods.iter().find(|pod| pod.metadata.uid.as_ref() == Some(uid) && is_tracked(pod));
                match held {
                    Some(pod) => {
                        self.release.push(Arc::clone(pod));
                        let list = if succeeds { &mut self.uncounted.succeeded } else { &mut self.uncounted.failed };
                        list.get_or_insert_default().push(uid.clone());
                    }
                    None if succeeds && is_indexed(spec) => {}
                    None if succeeds => self.succeeded += 1,
                    None => self.failed += 1,
                }
            }
        }
        for pod in pods.iter().filter(|pod| is_tracked(pod) && has_ended(pod)) {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let succeeds = phase(pod) == "Succeeded";
            if succeeds
                && is_indexed(spec)
                && let Some(index) = index_of(pod).filter(|index| calls_for(spec, *index))
            {
                // The set of indexes counts each once.
                self.indexes.insert(index);
            }
            if is_in(&before.succeeded, &uid) || is_in(&before.failed, &uid) {
                continue;
            }
            let list = if succeeds { &mut self.uncounted.succeeded } else { &mut self.uncounted.failed };
            list.get_or_insert_default().push(uid);
        }
        if is_indexed(spec) {
            self.succeeded = i32::try_from(self.indexes.len()).unwrap_or(i32::MAX);
        }
    }

    fn uncounted(list: Option<&Vec<String>>) -> i32 {
        list.map_or(0, |list| i32::try_from(list.len()).unwrap_or(i32::MAX))
    }

    fn done(&self, spec: &JobSpec) -> i32 {
        let uncounted = if is_indexed(spec) { 0 } else { Self::uncounted(self.uncounted.succeeded.as_ref()) };
        self.succeeded + uncounted
    }

    fn judge(&mut self, spec: &JobSpec, known: &JobStatus, suspended: bool, now: Timestamp) -> Option<Verdict> {
        let done = self.done(spec);
        let enough = spec.completions.map_or(done > 0 && self.active == 0, |wanted| done >= wanted);
        if enough {
            return Some(COMPLETE);
        }
        let failed = self.failed + Self::uncounted(self.uncounted.failed.as_ref());
        if failed > spec.backoff_limit.unwrap_or(6) {
            return Some(EXHAUSTED);
        }
        let (Some(deadline), Some(start), false) = (spec.active_deadline_seconds, &known.start_time, suspended) else {
            return None;
        };
        let left = deadline - now.duration_since(start.0).as_secs();
        if left <= 0 {
            return Some(LATE);
        }
        self.deadline_in = Some(Duration::from_secs(left.unsigned_abs()));
        None
    }

    /// Which pods are missing, or too many.
    fn plan(&mut self, spec: &JobSpec, pods: &[Arc<Pod>]) {
        let parallel = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or_default();
        let done = usize::try_from(self.done(spec)).unwrap_or_default();
        let wanted = match spec.completions {
            Some(wanted) => parallel.min(usize::try_from(wanted).unwrap_or_default().saturating_sub(done)),
            None if done > 0 => self.active.min(parallel),
            None => parallel,
        };
        let waits = spec.pod_replacement_policy.as_deref() == Some("Failed");
        let present = self.active + if waits { self.terminating } else { 0 };
        let mut running: Vec<_> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        sort_for_deletion(&mut running);
        let is_needed = |pod: &Arc<Pod>| !is_indexed(spec) || index_of(pod).is_none_or(|index| calls_for(spec, index));
        running.sort_by_key(is_needed);
        let excess = self.active.saturating_sub(wanted).max(running.partition_point(|pod| !is_needed(pod)));
        if excess > 0 {
            self.delete.extend(running.into_iter().take(excess));
        } else if is_indexed(spec) {
            let taken: BTreeSet<_> =
                pods.iter().filter(|pod| !is_terminal(pod)).filter_map(|pod| index_of(pod)).collect();
            let free = (0..spec.completions.unwrap_or_default())
                .filter(|index| !self.indexes.contains(index) && !taken.contains(index));
            self.create.extend(free.take(wanted.saturating_sub(present)).map(Some));
        } else {
            self.create.extend(std::iter::repeat_n(None, wanted.saturating_sub(present)));
        }
    }

    pub(super) fn status(&self, job: &Job, spec: &JobSpec, now: Timestamp) -> JobStatus {
        let known = job.status.clone().unwrap_or_default();
        let suspended = spec.suspend == Some(true);
        // A job that is over is not suspended any more.
        let held = suspended && self.verdict.is_none();
        let mut status = JobStatus {
            active: count(self.active),
            ready: Some(count(self.ready).unwrap_or_default()),
            succeeded: nonzero(self.succeeded),
            failed: nonzero(self.failed),
            terminating: Some(count(self.terminating).unwrap_or_default()),
            completed_indexes: is_indexed(spec).then(|| text(&self.indexes)).filter(|text| !text.is_empty()),
            uncounted_terminated_pods: Some(self.uncounted.clone()),
            start_time: known.start_time.filter(|_| !held).or((!suspended).then_some(Time(now))),
            conditions: known.conditions,
            ..JobStatus::default()
        };
        let conditions = status.conditions.get_or_insert_default();
        if held {
            set(conditions, "Suspended", true, "JobSuspended", "Job suspended", now);
        } else if !suspended && conditions.iter().any(|one| one.type_ == "Suspended") {
            set(conditions, "Suspended", false, "JobResumed", "Job resumed", now);
        }
        if let Some(Verdict { succeeded, reason, message }) = self.verdict {
            set(conditions, if succeeded { "SuccessCriteriaMet" } else { "FailureTarget" }, true, reason, message, now);
            let none = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
            if self.active == 0
                && self.terminating == 0
                && none(&self.uncounted.succeeded)
                && none(&self.uncounted.failed)
            {
                set(conditions, if succeeded { "Complete" } else { "Failed" }, true, reason, message, now);
                status.completion_time = succeeded.then_some(Time(now));
            }
        }
        if conditions.is_empty() {
            status.conditions = None;
        }
        status
    }
}

/// Returns `true` if the job has to complete this index.
fn calls_for(spec: &JobSpec, index: i32) -> bool {
    spec.completions.is_none_or(|completions| index < completions)
}

/// Returns `true` if no container of the pod will run any more. No kubelet ends a pod that is deleted before it is
/// bound to a node.
fn has_ended(pod: &Pod) -> bool {
    let is_bound = || pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    is_terminal(pod) || pod.metadata.deletion_timestamp.is_some() && !is_bound()
}

/// Sets a condition. One that is as wanted stays as it is.
fn set(conditions: &mut Vec<JobCondition>, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let value = if holds { "True" } else { "False" };
    if conditions.iter().any(|one| one.type_ == kind && one.status == value) {
        return;
    }
    conditions.retain(|one| one.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}

/// Indexes such as `0-2,4`.
fn ranges(text: &str) -> BTreeSet<i32> {
    let parts = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse().ok()?)
    });
    parts.flatten().collect()
}

fn text(indexes: &BTreeSet<i32>) -> String {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let parts = parts.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        // As Kubernetes writes two that follow each other.
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_indexed_job_that_shrinks_completes_its_first_indexes() {
        let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "template": {}});
        let status = json!({"completedIndexes": "0,4", "succeeded": 2});
        let job: Job = serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status})).unwrap();
        let pod = |index: &str| -> Arc<Pod> {
            let annotations = json!({"batch.kubernetes.io/job-completion-index": index});
            let metadata = json!({"name": index, "annotations": annotations});
            Arc::new(serde_json::from_value(json!({"metadata": metadata, "status": {"phase": "Running"}})).unwrap())
        };
        let pods = ["2", "3"].map(pod);
        let progress = Progress::of(&job, job.spec.as_ref().unwrap(), &pods, Timestamp::UNIX_EPOCH);
        assert_eq!((progress.succeeded, progress.verdict.is_none()), (1, true));
        let deleted: Vec<_> = progress.delete.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        assert_eq!(deleted, ["3"]);
    }

    #[test]
    fn a_suspended_job_is_complete_when_enough_pods_have_succeeded() {
        let spec = json!({"completions": 1, "parallelism": 1, "suspend": true, "template": {}});
        let job = json!({"metadata": {}, "spec": spec, "status": {"succeeded": 1}});
        let job: Job = serde_json::from_value(job).unwrap();
        let spec = job.spec.as_ref().unwrap();
        let status = Progress::of(&job, spec, &[], Timestamp::UNIX_EPOCH).status(&job, spec, Timestamp::UNIX_EPOCH);
        let conditions: Vec<_> = status.conditions.iter().flatten().map(|one| one.type_.as_str()).collect();
        assert_eq!(conditions, ["SuccessCriteriaMet", "Complete"]);
    }

    #[test]
    fn indexes_are_written_as_ranges() {
        assert_eq!(text(&ranges("0-2,4,6,7")), "0-2,4,6,7");
        assert_eq!(ranges("0-2,4"), [0, 1, 2, 4].into());
        assert_eq!(text(&BTreeSet::new()), "");
        assert!(ranges("").is_empty());
    }
}
