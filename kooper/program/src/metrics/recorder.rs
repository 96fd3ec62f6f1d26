//! The recorder for a Prometheus registry.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::client::ClientLayer;
use super::gauges::Gauges;
use super::series::{IN_QUEUE_BUCKETS, PROCESSING_BUCKETS, Series};
use super::{Counter, Gauge, MetricsError, MetricsRecorder, ReadGauge};

/// Records into a [`Registry`]: the metrics of Kooper for Go, controller-runtime
/// and client-go, and some of Kooper's own.
///
/// A clone records into the same metrics.
///
/// ```
/// use std::sync::Arc;
///
/// use kooper::Operator;
/// use kooper::metrics::Prometheus;
/// use kooper::prometheus::Registry;
///
/// let registry = Registry::new();
/// let metrics = Prometheus::new(&registry)?;
/// let operator = Operator::builder().metrics(Arc::new(metrics));
/// # let _ = operator;
/// # Ok::<(), kooper::metrics::MetricsError>(())
/// ```
#[derive(Clone)]
pub struct Prometheus {
    inner: Arc<Inner>,
}

/// Builds a [`Prometheus`] with other histogram buckets; created by
/// [`Prometheus::builder`].
///
/// ```
/// use kooper::metrics::Prometheus;
/// use kooper::prometheus::Registry;
///
/// let registry = Registry::new();
/// let metrics = Prometheus::builder(&registry).in_queue_buckets([0.1, 1.0, 10.0]).build()?;
/// # let _ = metrics;
/// # Ok::<(), kooper::metrics::MetricsError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct PrometheusBuilder<'a> {
    registry: &'a Registry,
    in_queue: Vec<f64>,
    processing: Vec<f64>,
}

struct Inner {
    series: Series,
    gauges: Gauges,
    controllers: Mutex<HashSet<String>>,
}

impl Prometheus {
    /// A recorder with the default buckets.
    ///
    /// # Errors
    /// If the registry already has metrics of these names.
    pub fn new(registry: &Registry) -> Result<Self, MetricsError> {
        Self::builder(registry).build()
    }

    /// Builds a recorder with other buckets.
    pub fn builder(registry: &Registry) -> PrometheusBuilder<'_> {
        PrometheusBuilder { registry, in_queue: IN_QUEUE_BUCKETS.to_vec(), processing: PROCESSING_BUCKETS.to_vec() }
    }

    /// A layer for a Kubernetes client. It counts the client's requests in
    /// `rest_client_requests_total`. `server` is the URL of the API server.
    ///
    /// ```
    /// # fn client(metrics: &kooper::metrics::Prometheus, config: kube::Config) -> kube::Result<kube::Client> {
    /// let layer = metrics.client_layer(&config.cluster_url);
    /// Ok(kube::client::ClientBuilder::try_from(config)?.with_layer(&layer).build())
    /// # }
    /// ```
    #[must_use]
    pub fn client_layer(&self, server: &http::Uri) -> ClientLayer {
        ClientLayer::new(self.inner.series.requests.clone(), server)
    }
}

impl PrometheusBuilder<'_> {
    /// Sets the upper bounds, in seconds, of the buckets of
    /// `kooper_controller_event_in_queue_duration_seconds`.
    pub fn in_queue_buckets(mut self, buckets: impl Into<Vec<f64>>) -> Self {
        self.in_queue = buckets.into();
        self
    }

    /// Sets the upper bounds, in seconds, of the buckets of
    /// `kooper_controller_processed_event_duration_seconds`.
    pub fn processing_buckets(mut self, buckets: impl Into<Vec<f64>>) -> Self {
        self.processing = buckets.into();
        self
    }

    /// Registers all metrics, or none.
    ///
    /// # Errors
    /// If buckets are invalid, or the registry already has metrics of these names.
    pub fn build(self) -> Result<Prometheus, MetricsError> {
        let inner = Arc::new(Inner {
            series: Series::new(checked(self.in_queue)?, checked(self.processing)?)?,
            gauges: Gauges::new()?,
            controllers: Mutex::default(),
        });
        self.registry.register(Box::new(AllMetrics(Arc::clone(&inner))))?;
        Ok(Prometheus { inner })
    }
}

/// The prometheus crate would panic at the first use of a histogram whose
/// buckets are not in order.
fn checked(buckets: Vec<f64>) -> Result<Vec<f64>, MetricsError> {
    let increasing = buckets.windows(2).all(|pair| pair[0] < pair[1]);
    if increasing && !buckets.is_empty() && buckets.iter().all(|bound| bound.is_finite()) {
        Ok(buckets)
    } else {
        Err(MetricsError::Buckets { buckets })
    }
}

impl MetricsRecorder for Prometheus {
    fn inc_event_queued(&self, controller: &str, requeue: bool) {
        self.inner.series.queued.with_label_values(&[controller, boolean(requeue)]).inc();
    }

    fn observe_in_queue_duration(&self, controller: &str, waited: Duration) {
        let seconds = waited.as_secs_f64();
        self.inner.series.in_queue.with_label_values(&[controller]).observe(seconds);
        self.inner.series.queue_duration.with_label_values(&[controller, controller]).observe(seconds);
    }

    fn observe_processing_duration(&self, controller: &str, success: bool, took: Duration) {
        let values = [controller, boolean(success)];
        self.inner.series.processed.with_label_values(&values).observe(took.as_secs_f64());
    }

    fn register_queue_length(&self, controller: &str, read: ReadGauge) -> Result<(), MetricsError> {
        let new = self.inner.controllers.lock().insert(controller.to_owned());
        if !new {
            return Err(MetricsError::DuplicateController { controller: controller.to_owned() });
        }
        self.inner.gauges.add_queue_length(controller, read);
        self.inner.series.begin(controller);
        Ok(())
    }

    fn count(&self, controller: &str, counter: Counter) {
        self.inner.series.count(controller, counter);
    }

    fn observe_work_duration(&self, controller: &str, took: Duration) {
        let seconds = took.as_secs_f64();
        self.inner.series.work_duration.with_label_values(&[controller, controller]).observe(seconds);
        self.inner.series.reconcile_time.with_label_values(&[controller]).observe(seconds);
    }

    fn observe_lease_renewal(&self, controller: &str, took: Duration) {
        self.inner.series.lease_renewals.with_label_values(&[controller]).observe(took.as_secs_f64());
    }

    fn observe_shard_handover(&self, controller: &str, took: Duration) {
        self.inner.series.shard_handovers.with_label_values(&[controller]).observe(took.as_secs_f64());
    }

    fn register_gauge(&self, controller: &str, gauge: Gauge, read: ReadGauge) -> Result<(), MetricsError> {
        if self.inner.gauges.add(controller, &gauge, read) {
            Ok(())
        } else {
            Err(MetricsError::DuplicateGauge { controller: controller.to_owned(), gauge })
        }
    }
}

fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

kooper_runtime::internal::debug_fields! { Prometheus {} }

/// All metrics as one collector, so that a registry takes all of them or none.
struct AllMetrics(Arc<Inner>);

impl AllMetrics {
    fn parts(&self) -> impl Iterator<Item = &dyn Collector> {
        self.0.series.parts().into_iter().chain(self.0.gauges.parts())
    }
}

impl Collector for AllMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.parts().flat_map(Collector::collect).collect()
    }
}
