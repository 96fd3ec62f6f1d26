//! The recorder that keeps its series in a Prometheus registry.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::client::ClientLayer;
use super::gauges::Gauges;
use super::series::{IN_QUEUE_BUCKETS, PROCESSING_BUCKETS, Series};
use super::{Counter, Gauge, MetricsError, MetricsRecorder, Read};

/// Records into a [`Registry`]: the series of Kooper for Go, those of
/// controller-runtime and client-go, and some that none of them has.
///
/// A clone records into the same series.
///
/// ```
/// let registry = prometheus::Registry::new();
/// let metrics = kooper::metrics::Prometheus::new(&registry)?;
/// # Ok::<(), kooper::metrics::MetricsError>(())
/// ```
#[derive(Clone)]
pub struct Prometheus {
    inner: Arc<Inner>,
}

/// Makes a [`Prometheus`] whose histograms have other buckets.
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
    /// When the registry has series of these names already.
    pub fn new(registry: &Registry) -> Result<Self, MetricsError> {
        Self::builder(registry).build()
    }

    /// A recorder whose buckets can be set.
    pub fn builder(registry: &Registry) -> PrometheusBuilder<'_> {
        PrometheusBuilder { registry, in_queue: IN_QUEUE_BUCKETS.to_vec(), processing: PROCESSING_BUCKETS.to_vec() }
    }

    /// A layer for a Kubernetes client that counts its requests in
    /// `rest_client_requests_total`. `server` is the URL of the API server.
    ///
    /// ```
    /// # fn client(metrics: &kooper::metrics::Prometheus, config: kube::Config) -> kube::Result<kube::Client> {
    /// let layer = metrics.client_layer(&config.cluster_url);
    /// Ok(kube::client::ClientBuilder::try_from(config)?.with_layer(&layer).build())
    /// # }
    /// ```
    pub fn client_layer(&self, server: &http::Uri) -> ClientLayer {
        ClientLayer::new(self.inner.series.requests.clone(), server)
    }
}

impl PrometheusBuilder<'_> {
    /// The upper bounds, in seconds, of
    /// `kooper_controller_event_in_queue_duration_seconds`.
    pub fn in_queue_buckets(mut self, buckets: impl Into<Vec<f64>>) -> Self {
        self.in_queue = buckets.into();
        self
    }

    /// The upper bounds, in seconds, of
    /// `kooper_controller_processed_event_duration_seconds`.
    pub fn processing_buckets(mut self, buckets: impl Into<Vec<f64>>) -> Self {
        self.processing = buckets.into();
        self
    }

    /// Registers every series, or none.
    ///
    /// # Errors
    /// When buckets are not usable, or the registry has series of these names
    /// already.
    pub fn build(self) -> Result<Prometheus, MetricsError> {
        let inner = Arc::new(Inner {
            series: Series::new(usable(self.in_queue)?, usable(self.processing)?)?,
            gauges: Gauges::new()?,
            controllers: Mutex::default(),
        });
        self.registry.register(Box::new(Everything(Arc::clone(&inner))))?;
        Ok(Prometheus { inner })
    }
}

/// The prometheus crate would panic on the first use of a histogram whose
/// buckets are out of order.
fn usable(buckets: Vec<f64>) -> Result<Vec<f64>, MetricsError> {
    let rising = buckets.windows(2).all(|pair| pair[0] < pair[1]);
    if rising && !buckets.is_empty() && buckets.iter().all(|bound| bound.is_finite()) {
        Ok(buckets)
    } else {
        Err(MetricsError::Buckets { buckets })
    }
}

impl MetricsRecorder for Prometheus {
    fn inc_event_queued(&self, controller: &str, requeue: bool) {
        self.inner.series.event_queued(controller, requeue);
    }

    fn observe_in_queue_duration(&self, controller: &str, waited: Duration) {
        self.inner.series.in_queue(controller, waited);
    }

    fn observe_processing_duration(&self, controller: &str, success: bool, took: Duration) {
        self.inner.series.processed(controller, success, took);
    }

    fn register_queue_length(&self, controller: &str, read: Read) -> Result<(), MetricsError> {
        let new = self.inner.controllers.lock().unwrap_or_else(PoisonError::into_inner).insert(controller.to_owned());
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
        self.inner.series.worked(controller, took);
    }

    fn observe_lease_renewal(&self, controller: &str, took: Duration) {
        self.inner.series.renewed(controller, took);
    }

    fn register_gauge(&self, controller: &str, gauge: Gauge, read: Read) -> Result<(), MetricsError> {
        if self.inner.gauges.add(controller, &gauge, read) {
            Ok(())
        } else {
            Err(MetricsError::DuplicateGauge { controller: controller.to_owned(), gauge })
        }
    }
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

/// All the series as one collector: a registry takes all of them or none.
struct Everything(Arc<Inner>);

impl Everything {
    fn parts(&self) -> impl Iterator<Item = &dyn Collector> {
        self.0.series.parts().into_iter().chain(self.0.gauges.parts())
    }
}

impl Collector for Everything {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.parts().flat_map(Collector::collect).collect()
    }
}
