//! Exports spans to an OpenTelemetry collector, if the environment configures one.

mod collector;
mod redacted;
mod sender;

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Compression, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;

use super::FAILED;
use super::connect::shown;
use super::logging::{Spans, guarded};
use collector::{Collector, VariableError};
use kooper_runtime::BoxError;
use redacted::Redacted;
use sender::Sender;

/// Maximum time to export the last spans when the program ends.
const FLUSH: Duration = Duration::from_secs(3);

/// The exit code for an invalid flag or variable.
const WRONG_USE: u8 = 2;

/// Collects spans and exports them in batches, from a separate thread.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    endpoint: String,
}

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error("spans cannot be exported to {endpoint}")]
    Export { endpoint: String, source: BoxError },
}

impl TracesError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Variable(_) => WRONG_USE,
            Self::Export { .. } => FAILED,
        }
    }
}

impl Traces {
    /// Begins to collect spans; `None` if the environment configures no collector.
    pub(crate) fn begin(program: &'static str, version: &'static str) -> Result<Option<Self>, TracesError> {
        let Some(collector) = Collector::find(|name| std::env::var_os(name))? else { return Ok(None) };
        // A password may be part of the endpoint.
        let endpoint = shown(&collector.endpoint);
        let failed = |source: BoxError| TracesError::Export { endpoint: endpoint.clone(), source };
        let sender = Sender::new(&collector).map_err(|error| failed(error.into()))?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(collector.endpoint.to_string())
            .with_timeout(collector.timeout);
        if collector.gzip {
            exporter = exporter.with_compression(Compression::Gzip);
        }
        let exporter = exporter.build().map_err(|error| failed(error.into()))?;
        let resource = resource(program, version, collector.service);
        let provider =
            SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(Redacted(exporter)).build();
        Ok(Some(Self { provider, endpoint }))
    }

    /// The layer that collects the program's spans of these levels.
    pub(crate) fn layer(&self, levels: Targets) -> Spans {
        let scope = InstrumentationScope::builder("kooper").with_version(env!("CARGO_PKG_VERSION")).build();
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer_with_scope(scope))
            // The source location and the thread that polled it first are not useful for a call.
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(guarded(levels))
            .boxed()
    }

    /// Exports the last spans, within a short time: an unavailable collector must not delay the stop.
    pub(crate) fn end(self) {
        if self.provider.shutdown_with_timeout(FLUSH).is_err() {
            tracing::warn!(
                endpoint = self.endpoint,
                "the last spans could not be exported within {FLUSH:?}: they are lost"
            );
        }
    }
}

/// The source of the spans. `OTEL_RESOURCE_ATTRIBUTES` overrides the program's own
/// name and version, and `OTEL_SERVICE_NAME` overrides both.
fn resource(program: &'static str, version: &'static str, service: Option<String>) -> Resource {
    let own = [KeyValue::new("service.name", program), KeyValue::new("service.version", version)];
    let resource = Resource::builder_empty()
        .with_attributes(own)
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    match service {
        Some(service) => resource.with_service_name(service).build(),
        None => resource.build(),
    }
}
