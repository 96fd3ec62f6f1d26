//! Tasks: functions that are called again and again, for no object.
//!
//! A task is a controller of one object, which exists only in its process. So the queue, back-off, time limits,
//! leader election, metrics and the drain are those of controllers.

mod ticks;

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use kooper_grammar::cron::Schedule;
use kooper_runtime::backoff::fraction;
use kooper_runtime::internal::error::{RetryHint, retry_hint};
use kooper_runtime::internal::object::kind::InProcess;
use kooper_runtime::internal::queue::AT_ONCE;
use kooper_runtime::{Action, BoxError, HandlerError};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use self::ticks::ScheduledRuns;
use super::Builder;
use crate::handler::{HandlerService, Input};
use crate::retriever::fixed;

/// The initial delay between the retries of a run that failed.
const RETRY: Duration = Duration::from_secs(1);

/// The longest delay between the retries of a run with a schedule.
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// A function that is called at an interval or at scheduled times, for no object.
///
/// [`builder`](Self::builder) and [`cron`](Self::cron) describe it. A [`Controller`](super::Controller) runs it, so it has the same name, metrics,
/// log lines and leader election as other controllers. This type is the kind of that controller.
///
/// ```
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kooper::controller::Task;
/// use kooper::prelude::*;
///
/// async fn count(pods: Reader<Pod>) {
///     println!("{} pods", pods.list().count());
/// }
///
/// let task = Task::builder("count", Duration::from_secs(600)).handler(count).build()?;
/// # assert_eq!((task.name(), task.kind()), ("count", "Task"));
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Task {
    metadata: ObjectMeta,
}

impl Task {
    /// Starts the description of a task with this name. Its handler is called once the caches are synced, as the leader
    /// with leader election, and again at this interval, up to a tenth earlier.
    ///
    /// Runs never overlap: if one takes longer than the interval, missed runs are skipped. A run that fails
    /// is retried with back-off, initially after a second and at the latest after the interval. No state outlives
    /// the process. A handler that returns [`Action::requeue_after`] decides itself when it is called next.
    ///
    /// With [`namespaces`](Builder::namespaces) or [`own_namespace`](Builder::own_namespace), its readers have the objects of
    /// these namespaces only, and its permissions are granted there. It runs once the caches of all of them are synced.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use kooper::controller::Task;
    ///
    /// let task = Task::builder("count", Duration::from_secs(600)).namespaces(["shop"]).handler(async || {}).build()?;
    /// assert_eq!(task.namespaces(), ["shop"]);
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    ///
    /// The settings of objects, such as `labels` and `resync`, do not apply to tasks. A limit of `retries` is an error.
    pub fn builder(name: impl Into<String>, every: Duration) -> Builder<Self> {
        let builder = Self::begin(name.into());
        if every.is_zero() {
            return builder.mistaken("every", "the interval is zero");
        }
        let builder = builder.layer(tower::layer::layer_fn(move |service| again(service, every)));
        builder.backoff(RETRY.min(every), every)
    }

    /// Starts the description of a task with this name, whose handler is called at the times of a schedule in UTC. Its
    /// format is that of Kubernetes' CronJobs: five fields, such as `0 3 * * mon-fri`, or a word such as `@daily`.
    ///
    /// Runs never overlap. A run is skipped if its time falls into a longer run, or if the program was not running, or was not
    /// the leader. A run that fails is retried with back-off, initially after a second and at the latest after ten
    /// minutes. A handler that returns [`Action::requeue_after`] decides itself when it is called next.
    ///
    /// ```
    /// use kooper::controller::Task;
    ///
    /// let task = Task::cron("report", "0 3 * * mon-fri").handler(async || {}).build()?;
    /// # assert!(Task::cron("report", "0 3 * *").handler(async || {}).build().is_err());
    /// # let _ = task;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn cron(name: impl Into<String>, schedule: &str) -> Builder<Self> {
        let builder = Self::begin(name.into());
        match Schedule::parse(schedule) {
            Ok(schedule) => {
                // Layers are applied once a term: a time of an earlier one may have been that of another leader's run.
                let ticks = move || Arc::new(ScheduledRuns::new(schedule.clone()));
                let layer = tower::layer::layer_fn(move |service| at_times(service, ticks()));
                builder.layer(layer).backoff(RETRY, LONGEST_RETRY)
            }
            Err(error) => builder.mistaken("cron", error),
        }
    }

    fn begin(name: String) -> Builder<Self> {
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let builder = Builder::new(name).events(false).resync(None).workers(1);
        match fixed([Self { metadata }]) {
            Ok(retriever) => builder.retriever(retriever),
            Err(error) => builder.mistaken("name", error),
        }
    }
}

/// The handler, called again when its interval is over.
fn again(
    service: HandlerService<Task>,
    every: Duration,
) -> impl Service<Input<Task>, Response = Action, Error = BoxError, Future: Send> + Clone + Send + Sync + 'static {
    tower::service_fn(move |input: Input<Task>| {
        let started = Instant::now();
        let running = service.clone().oneshot(input);
        async move {
            let action = running.await.map_err(|error| retried(error, || rest(every, started.elapsed())))?;
            Ok(if action.delay().is_some() { action } else { Action::requeue_after(rest(every, started.elapsed())) })
        }
    })
}

/// The handler, called at the times of a schedule.
fn at_times(
    service: HandlerService<Task>,
    ticks: Arc<ScheduledRuns>,
) -> impl Service<Input<Task>, Response = Action, Error = BoxError, Future: Send> + Clone + Send + Sync + 'static {
    tower::service_fn(move |input: Input<Task>| {
        let (service, ticks, call) = (service.clone(), ticks.clone(), input.call.clone());
        async move {
            // A retry is not at a time of the schedule, and a dry run does not wait for one. The repetition
            // after a conflict is a first attempt, too, and is due at once. A failure from before another replica had the
            // shard is not retried.
            let is_new = ticks.begin(call.shard().map(|shard| shard.term));
            if (is_new || call.attempt() == 1)
                && !call.is_dry_run()
                && let Some(wait) = ticks.wait(call.now())
            {
                return Ok(Action::requeue_after(wait));
            }
            let action = service.oneshot(input).await;
            let action = action.map_err(|error| {
                ticks.failed(call.now());
                retried(error, || ticks.ended(call.now(), None))
            })?;
            Ok(Action::requeue_after(ticks.ended(call.now(), action.delay())))
        }
    })
}

/// The error of a run. After a terminal one, the next run takes place at its usual time, because no change of an object
/// would end the wait for it.
fn retried(error: BoxError, next: impl FnOnce() -> Duration) -> BoxError {
    match retry_hint(&*error, None) {
        RetryHint::Never => HandlerError::retry_after(next(), error).into(),
        _ => error,
    }
}

/// The time until the next run, after one that took this long.
fn rest(every: Duration, took: Duration) -> Duration {
    // Tasks of several processes that started together do not stay together.
    let early = fraction(RandomState::new().hash_one(())) / 10.0;
    let (whole, every) = (every, every.mul_f64(1.0 - early).max(Duration::from_nanos(1)));
    if took < whole {
        // The time of the next one may have come, and it is not left out. Many immediate requeues would back off.
        return every.saturating_sub(took).max(AT_ONCE);
    }
    let late = u64::try_from(took.as_nanos() % every.as_nanos()).map_or(Duration::ZERO, Duration::from_nanos);
    every - late
}

impl Resource for Task {
    type DynamicType = ();
    type Scope = InProcess;

    fn kind((): &()) -> Cow<'_, str> {
        "Task".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "kooper.rs".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "tasks".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_is_at_most_a_tenth_early_and_a_missed_one_is_left_out() {
        let seconds = Duration::from_secs;
        for _ in 0..100 {
            assert!((seconds(90)..=seconds(100)).contains(&rest(seconds(100), Duration::ZERO)));
            assert!((seconds(20)..=seconds(30)).contains(&rest(seconds(100), seconds(70))));
            assert!(rest(seconds(100), seconds(95)) <= seconds(5), "it is not left out");
            // The run of the 100th second is left out.
            let late = rest(seconds(100), seconds(130));
            assert!((seconds(50)..=seconds(70)).contains(&late), "{late:?}");
        }
    }
}
