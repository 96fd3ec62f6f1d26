//! Settings of the queue: when changes call the handler, and in which order.

use std::sync::Arc;
use std::time::Duration;

use kooper_runtime::Kind;
use serde::de::DeserializeOwned;

use super::Builder;
use super::filter::{FilterArguments, FilterSignature};

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Calls the handler once an object has had no change for this time, or ten times this time after the first change.
    /// Changes of children and related objects count, too. The first list, resyncs, retries, the annotation of
    /// [`reconcile_now`](Self::reconcile_now), keys of sources and deletions do not wait. Default: off.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use kooper::KindExt;
    ///
    /// // At most one call every two seconds, and at least one every 20 seconds, while a Deployment is rolled out.
    /// let controller = Deployment::controller("rollouts").debounce(Duration::from_secs(2)).handler(async || {}).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn debounce(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.common.config.queue.debounce = interval.into();
        self
    }

    /// Sets which objects are handled first while several wait for a worker: those with a higher number. Objects of the
    /// first list and resyncs count 100 less than changes. Every tenth call is for the object that would be the first
    /// without priorities, so an object waits at most for ten times as many calls as without them. Default: 0 for all objects.
    ///
    /// The function is called when an object has to wait. It reads the decoded object, which takes about as long as
    /// [`when`](Self::when). An object that does not decode has the priority 0.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::KindExt;
    ///
    /// fn urgency(pod: &Pod) -> i32 {
    ///     pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
    /// }
    ///
    /// let controller = Pod::controller("pods").priority(urgency).handler(async || {}).build()?;
    /// # let _ = controller;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    #[doc(alias = "priority queue")]
    pub fn priority(mut self, priority: impl Fn(&O) -> i32 + Send + Sync + 'static) -> Self {
        self.priority = Some(Arc::new(priority));
        self
    }

    /// [`priority`](Self::priority) with a named function: the attribute generates this
    /// call.
    #[doc(hidden)]
    pub fn priority_fn<F: PriorityFn<O, Args>, Args>(self, priority: F) -> Self {
        self.priority(move |object| priority.priority(object))
    }
}

/// A `fn(&O) -> i32`.
pub trait PriorityFn<O, Args>: Send + Sync + 'static {
    /// The priority of the object.
    fn priority(&self, object: &O) -> i32;
}

impl<O, F, Args> PriorityFn<O, Args> for F
where
    F: FilterSignature<Args> + Send + Sync + 'static,
    Args: FilterArguments<O>,
    F::Output: PriorityNumber,
{
    fn priority(&self, object: &O) -> i32 {
        self.call_with(Args::arguments(object)).number()
    }
}

/// The result of a function for `priority`.
#[diagnostic::on_unimplemented(
    message = "a function for `priority` must return `i32`, but this one returns `{Self}`",
    label = "does not return `i32`"
)]
pub trait PriorityNumber {
    /// The number.
    fn number(self) -> i32;
}

#[diagnostic::do_not_recommend]
impl PriorityNumber for i32 {
    fn number(self) -> i32 {
        self
    }
}
