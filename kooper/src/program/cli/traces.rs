//! Spans for an OpenTelemetry collector, where the environment names one.

mod collector;
mod sender;

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;

use super::FAILED;
use super::logging::{Spans, guarded};
use collector::{Collector, VariableError};
use sender::{Sender, SenderError};

/// How long the end of the program waits for the last spans to be taken.
const FLUSH: Duration = Duration::from_secs(3);

/// The exit code of a wrong flag, which a wrong variable has too.
const WRONG_USE: u8 = 2;

/// Takes spans and sends them in batches, from a thread of its own.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    endpoint: String,
}

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error("spans cannot be sent to {endpoint}: {source}")]
    Sender { endpoint: String, source: SenderError },
    #[error("spans cannot be sent to {endpoint}: {source}")]
    Exporter { endpoint: String, source: ExporterBuildError },
}

impl TracesError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Variable(_) => WRONG_USE,
            Self::Sender { .. } | Self::Exporter { .. } => FAILED,
        }
    }
}

impl Traces {
    /// Begins to take spans; `None` where the environment asks for none.
    pub(crate) fn begin(program: &'static str, version: &'static str) -> Result<Option<Self>, TracesError> {
        let Some(collector) = Collector::find(|name| std::env::var_os(name))? else { return Ok(None) };
        let endpoint = collector.endpoint.to_string();
        let sender =
            Sender::new(&collector).map_err(|source| TracesError::Sender { endpoint: endpoint.clone(), source })?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(&endpoint)
            .with_timeout(collector.timeout)
            .build()
            .map_err(|source| TracesError::Exporter { endpoint: endpoint.clone(), source })?;
        let resource = resource(program, version, collector.service);
        let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        Ok(Some(Self { provider, endpoint }))
    }

    /// What hands it the spans of the program, as many as these levels let pass.
    pub(crate) fn layer(&self, levels: Targets) -> Spans {
        let scope = InstrumentationScope::builder("kooper").with_version(env!("CARGO_PKG_VERSION")).build();
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer_with_scope(scope))
            // Where the code lay when it was built, and which thread of many
            // polled it first, say nothing about a call.
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(guarded(levels))
            .boxed()
    }

    /// Sends what is left, and gives up soon: a collector that is away must not hold up the stop.
    pub(crate) fn end(self) {
        if self.provider.shutdown_with_timeout(FLUSH).is_err() {
            tracing::warn!(endpoint = self.endpoint, "the last spans were not taken within {FLUSH:?}: they are lost");
        }
    }
}

/// Who sends the spans. `OTEL_RESOURCE_ATTRIBUTES` wins over what the program
/// says, and `OTEL_SERVICE_NAME` over both.
fn resource(program: &'static str, version: &'static str, service: Option<String>) -> Resource {
    let said = [KeyValue::new("service.name", program), KeyValue::new("service.version", version)];
    let resource = Resource::builder_empty()
        .with_attributes(said)
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    match service {
        Some(service) => resource.with_service_name(service).build(),
        None => resource.build(),
    }
}
