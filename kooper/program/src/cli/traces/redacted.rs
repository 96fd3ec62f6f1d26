//! Spans without secrets, as the log and Events are.

use std::borrow::Cow;
use std::time::Duration;

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use kooper_runtime::internal::error::redaction::redact;

/// Redacts spans before they are exported.
#[derive(Debug)]
pub(super) struct Redacted<E>(pub(super) E);

impl<E: SpanExporter> SpanExporter for Redacted<E> {
    fn export(&self, mut batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        batch.iter_mut().for_each(redact_span);
        self.0.export(batch)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn redact_span(span: &mut SpanData) {
    redact_text(&mut span.name);
    redact_attributes(&mut span.attributes);
    for event in &mut span.events.events {
        redact_text(&mut event.name);
        redact_attributes(&mut event.attributes);
    }
    for link in &mut span.links.links {
        redact_attributes(&mut link.attributes);
    }
    if let Status::Error { description } = &mut span.status {
        redact_text(description);
    }
}

fn redact_text(text: &mut Cow<'static, str>) {
    if let Cow::Owned(redacted) = redact(text) {
        *text = redacted.into();
    }
}

fn redact_attributes(attributes: &mut [KeyValue]) {
    for KeyValue { value, .. } in attributes {
        match value {
            Value::String(text) => redact_value(text),
            Value::Array(Array::String(texts)) => texts.iter_mut().for_each(redact_value),
            _ => {}
        }
    }
}

fn redact_value(text: &mut StringValue) {
    if let Cow::Owned(redacted) = redact(text.as_str()) {
        *text = redacted.into();
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::future::ready;
    use std::sync::Arc;

    use opentelemetry::trace::{Link, SpanContext, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use kooper_runtime::internal::error::redaction::remember;

    /// Keeps what is exported.
    #[derive(Clone, Debug, Default)]
    struct SpanKeeper(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for SpanKeeper {
        fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
            self.0.lock().extend(batch);
            ready(Ok(()))
        }
    }

    #[test]
    fn no_field_event_or_status_of_a_span_has_a_secret() {
        remember("spans-5c81");
        let kept = SpanKeeper::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(Redacted(kept.clone())).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let error = std::io::Error::other("cannot reach postgres://me:spans-5c81@db/shop");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("call", key = "shop/corner", url = "amqp://me@mq", password = "spans-5c81");
            span.in_scope(|| tracing::error!(error = &error as &dyn std::error::Error, "it is spans-5c81"));
        });
        let mut spans = std::mem::take(&mut *kept.0.lock());
        assert_eq!(spans.len(), 1);
        let shown = format!("{spans:?}");
        assert!(!shown.contains("spans-5c81") && !shown.contains("me@"), "{shown}");
        assert!(shown.contains("shop/corner") && shown.contains("postgres://[redacted]@db/shop"), "{shown}");

        let attribute = || KeyValue::new("all", Value::Array(Array::String(vec!["a spans-5c81".into()])));
        let mut span = spans.remove(0);
        span.attributes = vec![attribute()];
        span.links.links = vec![Link::new(SpanContext::empty_context(), vec![attribute()], 0)];
        span.status = Status::error("http://me@shop");
        span.name = "of spans-5c81".into();
        redact_span(&mut span);
        let shown = format!("{span:?}");
        assert!(!shown.contains("spans-5c81") && !shown.contains("me@"), "{shown}");
        assert_eq!(shown.matches("[redacted]").count(), 7, "{shown}");
    }
}
