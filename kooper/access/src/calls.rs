//! Observers of the calls of a controller: its metrics, its log, its Events about failures.

mod failing;
mod metrics;
mod reporter;
mod totals;

use std::sync::Arc;

use kooper_runtime::internal::call::extensions::Extensions;
use kooper_runtime::internal::call::observer::{CallObserver, Observe};
use kooper_runtime::internal::controller::Config;
use kooper_runtime::metrics::{Gauge, MetricsRecorder};

use crate::capability::Children;
pub use failing::Failing;
use metrics::CallMetrics;
use reporter::Reporter;
pub use totals::CallTotals;

/// The result under which `kooper_controller_processed_event_duration_seconds` counts a failed
/// call that will be retried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsCompat {
    /// As `success="false"`, like any other failed call. The default.
    #[default]
    Accurate,
    /// As `success="true"`, as Kooper for Go does, for alerts and dashboards
    /// that were written for it.
    Go,
}

/// Values that the handlers of a controller keep for it, and the observers of its calls that they bring.
#[derive(Default)]
pub struct Additions {
    /// Values by their type. The controller's context has them.
    pub extensions: Extensions,
    /// They are told of the controller's calls.
    pub observers: Vec<Arc<dyn CallObserver>>,
}

kooper_runtime::internal::debug_fields! { Additions { extensions } }

/// Makes the observers of a controller with these settings, and adds some of its handlers.
pub(crate) fn observe(
    config: &Config,
    recorder: Arc<dyn MetricsRecorder>,
    others: Vec<Arc<dyn CallObserver>>,
) -> Observe {
    let (detail, finalizers) = (config.events, config.finalizers());
    Box::new(move |controller, unselected| {
        let (name, failing) = (controller.controller.clone(), controller.extensions.get::<Failing>());
        let read = failing.clone();
        let read = move || read.keys() as f64;
        if let Err(error) = recorder.register_gauge(&name, Gauge::FailingKeys, Box::new(read)) {
            tracing::warn!(controller = &*name, "a metric is missing: {error}");
        }
        let reporter = Reporter { controller: controller.clone(), failing, detail, finalizers, unselected };
        let retried_is_success = *controller.extensions.get::<MetricsCompat>() == MetricsCompat::Go;
        let metrics = CallMetrics { controller: name, recorder, retried_is_success };
        let extensions = &controller.extensions;
        let observers: [Arc<dyn CallObserver>; 4] =
            [Arc::new(metrics), Arc::new(reporter), extensions.get::<CallTotals>(), extensions.get::<Children>()];
        observers.into_iter().chain(others).collect()
    })
}
