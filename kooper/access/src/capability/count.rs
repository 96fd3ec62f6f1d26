//! Counting what has finished.

use std::collections::HashSet;
use std::sync::Arc;

use kooper_runtime::Kind;

/// Number of deleted objects that are remembered as counted. A stale cache may show one
/// of them again.
const REMEMBERED: usize = 20;

/// Those of the finished objects that are not counted yet, in the given order. `counted`
/// has the uids of those that are, and gets theirs; keep it in the status, beside what
/// is counted. Both are then written together, so that a call that is repeated counts
/// nothing twice: write them with
/// [`apply_status_unchanged`](super::Access::apply_status_unchanged).
///
/// `finished` is all finished objects that exist. The uids of others are forgotten,
/// except the newest twenty. An object that is deleted before it is counted never is: let
/// the controller delete it, after it has written the status.
///
/// ```
/// use k8s_openapi::api::batch::v1::Job;
/// use kooper::capability::count_once;
/// use std::sync::Arc;
///
/// let mut job = Job::default();
/// job.metadata.uid = Some("3f8e".into());
/// let (job, mut counted) = (Arc::new(job), Vec::new());
/// assert_eq!(count_once(&mut counted, [job.clone()]).len(), 1);
/// assert_eq!(count_once(&mut counted, [job]).len(), 0);
/// ```
#[must_use = "objects are returned only once: those that were counted are left out from now on"]
pub fn count_once<T: Kind>(counted: &mut Vec<String>, finished: impl IntoIterator<Item = Arc<T>>) -> Vec<Arc<T>> {
    let known: HashSet<String> = counted.iter().cloned().collect();
    let (mut existing, mut new) = (HashSet::new(), Vec::new());
    for object in finished {
        let Some(uid) = object.meta().uid.clone() else { continue };
        if existing.insert(uid.clone()) && !known.contains(&uid) {
            counted.push(uid);
            new.push(object);
        }
    }
    let gone = counted.iter().filter(|uid| !existing.contains(*uid)).count();
    let mut forgotten = gone.saturating_sub(REMEMBERED);
    counted.retain(|uid| {
        let forgets = forgotten > 0 && !existing.contains(uid);
        forgotten -= usize::from(forgets);
        !forgets
    });
    new
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;

    use super::*;

    fn jobs(uids: &[&str]) -> Vec<Arc<Job>> {
        let job = |uid: &&str| {
            let mut job = Job::default();
            job.metadata.uid = Some((*uid).to_owned());
            Arc::new(job)
        };
        uids.iter().map(job).collect()
    }

    /// The uids that are counted now.
    fn count(counted: &mut Vec<String>, uids: &[&str]) -> Vec<String> {
        count_once(counted, jobs(uids)).iter().map(|job| job.metadata.uid.clone().unwrap()).collect()
    }

    #[test]
    fn objects_that_finish_at_once_are_each_counted_once() {
        let mut counted = Vec::new();
        assert_eq!(count(&mut counted, &["b", "a", "b"]), ["b", "a"]);
        assert_eq!(count(&mut counted, &["a", "b", "c"]), ["c"]);
        assert_eq!(count(&mut counted, &["a", "b", "c"]), [""; 0]);
        assert_eq!(counted, ["b", "a", "c"]);
    }

    #[test]
    fn a_call_that_is_repeated_before_its_write_counts_the_same() {
        let before = vec!["a".to_owned()];
        let (mut first, mut second) = (before.clone(), before);
        assert_eq!(count(&mut first, &["a", "b"]), count(&mut second, &["a", "b"]));
        assert_eq!(first, second);
    }

    #[test]
    fn a_deleted_object_stays_counted_and_one_that_a_cache_shows_again_is_not_new() {
        let mut counted = Vec::new();
        assert_eq!(count(&mut counted, &["a", "b"]).len(), 2);
        assert_eq!(count(&mut counted, &[]), [""; 0]);
        assert_eq!(count(&mut counted, &["b", "c"]), ["c"]);
        assert_eq!(count(&mut counted, &["a"]), [""; 0]);
    }

    #[test]
    fn what_is_remembered_grows_with_the_objects_that_exist_only() {
        let mut counted = Vec::new();
        let kept = (0..100).map(|n| format!("kept-{n}")).collect::<Vec<_>>();
        for n in 0..1_000 {
            let gone = format!("gone-{n}");
            let now: Vec<&str> = kept.iter().map(String::as_str).chain([&*gone]).collect();
            assert_eq!(count(&mut counted, &now).len(), if n == 0 { 101 } else { 1 });
        }
        assert_eq!(counted.len(), 100 + REMEMBERED + 1);
        assert!(kept.iter().all(|uid| counted.contains(uid)) && counted.contains(&"gone-999".to_owned()));
        assert!(!counted.contains(&"gone-0".to_owned()));
    }

    #[test]
    fn an_object_that_was_never_created_is_not_counted() {
        let mut counted = Vec::new();
        assert!(count_once(&mut counted, [Arc::new(Job::default())]).is_empty() && counted.is_empty());
    }
}
