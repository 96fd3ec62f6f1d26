//! The metrics of the server, with the names of controller-runtime.

use std::time::Instant;

use http::StatusCode;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

/// From a validation in memory to a function that asks another server.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// The metrics of all webhooks. The label `webhook` is the path.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    latency: HistogramVec,
    requests: IntCounterVec,
    in_flight: IntGaugeVec,
    pub(super) panics: IntCounter,
    denied: IntCounterVec,
}

/// A request that is being answered.
pub(super) struct InFlight<'a> {
    metrics: &'a Metrics,
    path: &'a str,
    began: Instant,
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let latency = HistogramOpts::new(
            "controller_runtime_webhook_latency_seconds",
            "How long requests to webhooks take, in seconds.",
        );
        let in_flight = Opts::new("controller_runtime_webhook_requests_in_flight", "Requests that are being answered.");
        Ok(Self {
            latency: HistogramVec::new(latency.buckets(BUCKETS.to_vec()), &["webhook"])?,
            requests: counter(
                "controller_runtime_webhook_requests_total",
                "Requests to webhooks, by the HTTP status of the response.",
                &["webhook", "code"],
            )?,
            in_flight: IntGaugeVec::new(in_flight, &["webhook"])?,
            panics: IntCounter::new(
                "controller_runtime_webhook_panics_total",
                "Calls of webhooks' functions that panicked.",
            )?,
            denied: counter("kooper_webhook_denied_total", "Requests that a function denied.", &["webhook"])?,
        })
    }

    pub(crate) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.latency.clone()))?;
        registry.register(Box::new(self.requests.clone()))?;
        registry.register(Box::new(self.in_flight.clone()))?;
        registry.register(Box::new(self.panics.clone()))?;
        registry.register(Box::new(self.denied.clone()))
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
