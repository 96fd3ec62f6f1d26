//! The pods of a job.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

use super::TRACKED;
use crate::pods;
use kooper_access::capability::owned_by;
use kooper_runtime::Result;

/// The number of a pod of an indexed job, as annotation and label.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// The number of a pod of an indexed job.
pub(super) fn index_of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

/// A pod of the job; `index` is set if the job is indexed.
pub(super) fn of_job(job: &Arc<Job>, spec: &JobSpec, index: Option<i32>) -> Result<Pod> {
    let mut pod = pods::of_template(&spec.template, &job.metadata);
    pod.metadata.finalizers.get_or_insert_default().push(TRACKED.to_owned());
    let Some(index) = index else { return Ok(owned_by(job, pod)?) };
    let name = format!("{}-{index}", job.metadata.name.as_deref().unwrap_or_default());
    pod.metadata.generate_name = Some(format!("{name}-"));
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    pod.metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname.get_or_insert(name);
    let field = ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{INDEX}']") };
    let variable = EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    };
    for container in pod_spec.containers.iter_mut().chain(pod_spec.init_containers.iter_mut().flatten()) {
        container.env.get_or_insert_default().push(variable.clone());
    }
    Ok(owned_by(job, pod)?)
}
