//! The pods of jobs that do not exist any more, or have finished: nothing counts them.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::{TRACKED, is_tracked, progress};
use crate::children::{controller_of, key_of, remove_finalizer};
use kooper_access::KindExt as _;
use kooper_access::capability::by;
use kooper_access::{ConfigError, Controller, Patcher, Reader};
use kooper_runtime::{ObjectKey, Result};

pub(crate) fn controller() -> Result<Controller, ConfigError> {
    Pod::controller("job-tracking")
        .resync(None)
        .while_deleting()
        .when(|pod| is_tracked(pod) && pod.metadata.deletion_timestamp.is_some())
        .watches::<Job, _, _>(pods_of)
        .handler(reconcile)
        .build()
}

/// The pods of a job, which it may have left behind.
fn pods_of(job: &Job, pods: &Reader<Pod>) -> Vec<ObjectKey> {
    let of_job = by::owner_uid(job.metadata.uid.clone().unwrap_or_default());
    pods.select(of_job).flatten().map(|pod| key_of(&pod.metadata)).collect()
}

async fn reconcile(pod: Arc<Pod>, jobs: Reader<Job>, patcher: Patcher<Pod>) -> Result<()> {
    let job = match controller_of(&pod.metadata).filter(|owner| owner.kind == "Job") {
        Some(owner) => jobs
            .get(&ObjectKey::new(pod.metadata.namespace.as_deref(), &owner.name))?
            .filter(|job| job.metadata.uid.as_ref() == Some(&owner.uid)),
        None => None,
    };
    let counts = job.is_some_and(|job| {
        job.metadata.deletion_timestamp.is_none() && progress::finished(job.status.as_ref()).is_none()
    });
    if !counts {
        remove_finalizer(&pod, TRACKED, &patcher).await?;
    }
    Ok(())
}
