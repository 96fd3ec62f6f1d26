//! The ids of exported spans, for the lines that are logged within them.

use std::sync::{Arc, OnceLock};

use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing::Dispatch;
use tracing::dispatcher::WeakDispatch;
use tracing::{Event, Subscriber};
use tracing_opentelemetry::get_otel_context;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Where spans are exported from; empty until the logger is complete.
#[derive(Debug, Clone, Default)]
pub(super) struct Exported(Arc<OnceLock<WeakDispatch>>);

impl Exported {
    pub(super) fn set(&self, logger: &Dispatch) {
        // It is set once, as it belongs to one logger.
        drop(self.0.set(logger.downgrade()));
    }

    /// The ids of the innermost span of an event, if it is exported.
    pub(super) fn of<S, N>(&self, context: &FmtContext<'_, S, N>) -> Option<SpanContext>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        let logger = self.0.get()?.upgrade()?;
        let span = context.event_scope()?.next()?.id();
        let exported = get_otel_context(&span, &logger)?;
        let ids = exported.span().span_context().clone();
        (ids.is_valid() && ids.is_sampled()).then_some(ids)
    }
}

/// Adds the ids to lines in JSON.
pub(super) struct WithIds<F> {
    pub(super) inner: F,
    pub(super) exported: Exported,
}

impl<S, N, F> FormatEvent<S, N> for WithIds<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let Some(ids) = self.exported.of(context) else { return self.inner.format_event(context, writer, event) };
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        match line.strip_suffix("}\n") {
            Some(object) => {
                let (trace, span) = (ids.trace_id(), ids.span_id());
                writeln!(writer, "{object},\"trace_id\":\"{trace}\",\"span_id\":\"{span}\"}}")
            }
            None => writer.write_str(&line),
        }
    }
}
