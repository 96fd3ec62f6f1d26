//! Observers of the calls of a controller: its metrics, its log, its Events about failures.

mod failing;
mod metrics;
mod reporter;

use std::sync::Arc;

use kooper_runtime::MetricsCompat;
use kooper_runtime::internal::call::observer::{CallObserver, Observe};
use kooper_runtime::internal::controller::Config;
use kooper_runtime::metrics::{Gauge, MetricsRecorder};

pub use failing::Failing;
use metrics::CallMetrics;
use reporter::Reporter;

/// Makes the observers of a controller with these settings.
pub(crate) fn observe(config: &Config, recorder: Arc<dyn MetricsRecorder>) -> Observe {
    let (detail, finalizers) = (config.events, config.finalizers());
    let retried_is_success = config.metrics_compat == MetricsCompat::Go;
    Box::new(move |controller, unselected| {
        let (name, failing) = (controller.controller.clone(), controller.extensions.get::<Failing>());
        let read = failing.clone();
        let read = move || read.keys() as f64;
        if let Err(error) = recorder.register_gauge(&name, Gauge::FailingKeys, Box::new(read)) {
            tracing::warn!(controller = &*name, "a metric is missing: {error}");
        }
        let reporter = Reporter { controller: controller.clone(), failing, detail, finalizers, unselected };
        let metrics = CallMetrics { controller: name, recorder, retried_is_success };
        let observers: [Arc<dyn CallObserver>; 2] = [Arc::new(metrics), Arc::new(reporter)];
        observers.into()
    })
}
