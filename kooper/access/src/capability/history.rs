//! The limit of a history.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kooper_runtime::Kind;

/// Those of the finished objects that are beyond the limit of their history, oldest
/// first: all but the newest `limit`. Objects that are created in the same second are
/// in the order of their names. Objects that are being deleted are not counted, and
/// not returned.
///
/// ```
/// use k8s_openapi::api::batch::v1::{CronJob, Job};
/// use kooper::capability::{beyond_history_limit, by};
/// use kooper::prelude::*;
///
/// async fn clean_up(cron: Arc<CronJob>, jobs: Reader<Job>, deleter: Deleter<Job>) -> Result<()> {
///     let jobs = jobs.select(by::owner(&cron)).collect::<Result<Vec<_>, _>>()?;
///     let has_succeeded = |job: &Arc<Job>| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1));
///     for job in beyond_history_limit(jobs.into_iter().filter(has_succeeded), 3) {
///         deleter.delete_object(&job).await?;
///     }
///     Ok(())
/// }
/// ```
#[must_use = "the objects are not deleted yet: pass them to a `Deleter`"]
pub fn beyond_history_limit<T: Kind>(finished: impl IntoIterator<Item = Arc<T>>, limit: usize) -> Vec<Arc<T>> {
    let is_terminating = |object: &Arc<T>| object.meta().deletion_timestamp.is_some();
    let mut objects: Vec<_> = finished.into_iter().filter(|object| !is_terminating(object)).collect();
    objects.sort_by(|one, other| age(one.meta()).cmp(&age(other.meta())));
    objects.truncate(objects.len().saturating_sub(limit));
    objects
}

/// The order of a history. The namespace is last, so that it is total.
fn age(meta: &ObjectMeta) -> (Option<Timestamp>, Option<&str>, Option<&str>) {
    (meta.creation_timestamp.as_ref().map(|time| time.0), meta.name.as_deref(), meta.namespace.as_deref())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    /// A job that was created at this second.
    fn job(name: &str, second: i64) -> Job {
        let mut job = Job::default();
        job.metadata.name = Some(name.to_owned());
        job.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
        job
    }

    fn names(jobs: impl IntoIterator<Item = Job>, limit: usize) -> Vec<String> {
        let beyond = beyond_history_limit(jobs.into_iter().map(Arc::new), limit);
        beyond.iter().map(|job| job.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn all_but_the_newest_are_beyond_the_limit_and_the_oldest_is_first() {
        let jobs = [job("a", 30), job("b", 10), job("c", 40), job("d", 20)];
        assert_eq!(names(jobs, 2), ["b", "d"]);
    }

    #[test]
    fn objects_of_the_same_second_are_ordered_by_name() {
        for jobs in [[job("b", 10), job("c", 10), job("a", 10)], [job("c", 10), job("a", 10), job("b", 10)]] {
            assert_eq!(names(jobs, 1), ["a", "b"]);
        }
    }

    #[test]
    fn a_limit_of_zero_keeps_nothing() {
        assert_eq!(names([job("a", 20), job("b", 10)], 0), ["b", "a"]);
    }

    #[test]
    fn a_history_within_its_limit_loses_nothing() {
        assert!(names([], 0).is_empty());
        assert!(names([job("a", 20), job("b", 10)], 2).is_empty());
        assert!(names([job("a", 20), job("b", 10)], usize::MAX).is_empty());
    }

    #[test]
    fn what_is_being_deleted_neither_counts_nor_is_deleted_again() {
        let terminating = |name, second| {
            let mut job = job(name, second);
            job.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            job
        };
        assert_eq!(names([terminating("a", 10), job("b", 20), terminating("c", 40), job("d", 30)], 1), ["b"]);
    }
}
