//! The time, as an argument of handlers.

use k8s_openapi::jiff::Timestamp;
use kooper_runtime::internal::clock;

/// The time. An argument of handlers, and of the functions for `init`, `cleanup` and
/// `deleted`; in a handler [`Call::now`](kooper_runtime::Call::now) is the same.
///
/// It is the machine's time, to the fraction of a second, and in a test whose clock is
/// [paused](https://docs.rs/tokio/latest/tokio/time/fn.pause.html) that clock's, which
/// agrees with the timestamps of a `Cluster`. A schedule that
/// reads it is tested without waiting.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use k8s_openapi::jiff::ToSpan as _;
/// use kooper::prelude::*;
///
/// #[kooper::controller(resource = ConfigMap, main = false)]
/// async fn expire(config: Arc<ConfigMap>, clock: Clock, configs: Deleter<ConfigMap>) -> Result<Action> {
///     let created = config.creation_timestamp().ok_or("the object has no creation timestamp")?.0;
///     let left = clock.now().duration_until(created + 24.hours());
///     if left.is_positive() {
///         return Ok(Action::requeue_after(left.unsigned_abs()));
///     }
///     configs.delete_object(&config).await?;
///     Ok(Action::done())
/// }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    stopped: Option<Timestamp>,
}

impl Clock {
    /// A clock that stands still, as to call a handler in a unit test.
    #[must_use]
    pub fn stopped_at(time: Timestamp) -> Self {
        Self { stopped: Some(time) }
    }

    /// The time now. `Time(clock.now())` is that of a status, with
    /// `k8s_openapi::apimachinery::pkg::apis::meta::v1::Time`.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.stopped.unwrap_or_else(clock::wall)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Timestamp};

    #[tokio::test(start_paused = true)]
    async fn a_clock_follows_one_that_a_test_has_paused_unless_it_is_stopped() {
        let day = std::time::Duration::from_secs(86_400);
        let (clock, stopped) = (Clock::default(), Clock::stopped_at(Timestamp::UNIX_EPOCH));
        let before = clock.now();
        tokio::time::sleep(day).await;
        let passed = clock.now().duration_since(before).unsigned_abs();
        assert!(passed.abs_diff(day).as_secs() < 1, "{passed:?}");
        assert_eq!(stopped.now(), Timestamp::UNIX_EPOCH);
    }
}
