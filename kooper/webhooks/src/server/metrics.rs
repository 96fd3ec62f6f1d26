//! The metrics of the server, with the names of controller-runtime.

use std::time::Instant;

use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

/// From a validation in memory to a function that asks another server.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// The metrics of all webhooks. The label `webhook` is the path.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    /// The name of the program, with that of its instance.
    installation: String,
    latency: HistogramVec,
    requests: IntCounterVec,
    in_flight: IntGaugeVec,
    pub(super) panics: IntCounter,
    denied: IntCounterVec,
    expiry: IntGaugeVec,
    probed: IntGaugeVec,
}

/// The descriptions of the metrics, which are compared with the table of all metrics.
#[doc(hidden)]
#[must_use]
pub fn described() -> Vec<Desc> {
    let metrics = Metrics::new(String::new()).into_iter();
    let collectors = metrics.flat_map(|metrics| metrics.collectors());
    collectors.flat_map(|one| one.desc().into_iter().cloned().collect::<Vec<_>>()).collect()
}

/// A request that is being answered.
pub(super) struct InFlight<'a> {
    metrics: &'a Metrics,
    path: &'a str,
    began: Instant,
}

impl Metrics {
    pub(crate) fn new(installation: String) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let latency = HistogramOpts::new(
            "controller_runtime_webhook_latency_seconds",
            "How long requests to webhooks take, in seconds.",
        );
        let gauge = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        Ok(Self {
            installation,
            latency: HistogramVec::new(latency.buckets(BUCKETS.to_vec()), &["webhook"])?,
            requests: counter(
                "controller_runtime_webhook_requests_total",
                "Requests to webhooks, by the HTTP status of the response.",
                &["webhook", "code"],
            )?,
            in_flight: gauge(
                "controller_runtime_webhook_requests_in_flight",
                "Requests that are being answered.",
                &["webhook"],
            )?,
            panics: IntCounter::new(
                "controller_runtime_webhook_panics_total",
                "Calls of webhooks' functions that panicked.",
            )?,
            denied: counter("kooper_webhook_denied_total", "Requests that a function denied.", &["webhook"])?,
            expiry: gauge(
                "kooper_webhook_certificate_expiry_timestamp_seconds",
                "When a certificate of the webhooks expires, in seconds since 1970.",
                &["installation", "certificate"],
            )?,
            probed: gauge(
                "kooper_webhook_last_probe_timestamp_seconds",
                "When an API server last reached the webhooks, in seconds since 1970, of the replica that registers them.",
                &["installation"],
            )?,
        })
    }

    fn collectors(&self) -> [Box<dyn Collector>; 7] {
        [
            Box::new(self.latency.clone()),
            Box::new(self.requests.clone()),
            Box::new(self.in_flight.clone()),
            Box::new(self.panics.clone()),
            Box::new(self.denied.clone()),
            Box::new(self.expiry.clone()),
            Box::new(self.probed.clone()),
        ]
    }

    /// Adds them to a registry, with the series of these paths.
    pub(crate) fn register(
        &self,
        registry: &Registry,
        paths: impl Iterator<Item = String>,
    ) -> Result<(), prometheus::Error> {
        for path in paths {
            // Alerts on increases work from the first request on.
            self.latency.with_label_values(&[&*path]);
            self.requests.with_label_values(&[&*path, StatusCode::OK.as_str()]);
            self.in_flight.with_label_values(&[&*path]);
            self.denied.with_label_values(&[&*path]);
        }
        self.probed.with_label_values(&[&*self.installation]);
        self.collectors().into_iter().try_for_each(|one| registry.register(one))
    }

    /// The certificate is `authority`, which the API servers trust, or `serving`, that of this replica.
    pub(crate) fn expires(&self, certificate: &str, at: Timestamp) {
        self.expiry.with_label_values(&[&*self.installation, certificate]).set(at.as_second());
    }

    pub(crate) fn probed(&self, at: Timestamp) {
        self.probed.with_label_values(&[&*self.installation]).set(at.as_second());
    }

    pub(super) fn begin<'a>(&'a self, path: &'a str) -> InFlight<'a> {
        self.in_flight.with_label_values(&[path]).inc();
        InFlight { metrics: self, path, began: Instant::now() }
    }
}

impl InFlight<'_> {
    /// Counts the response, and whether the function denied the request.
    pub(super) fn ended(&self, status: StatusCode, denied: bool) {
        let Self { metrics, path, began } = *self;
        metrics.requests.with_label_values(&[path, status.as_str()]).inc();
        metrics.latency.with_label_values(&[path]).observe(began.elapsed().as_secs_f64());
        if denied {
            metrics.denied.with_label_values(&[path]).inc();
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.with_label_values(&[self.path]).dec();
    }
}
