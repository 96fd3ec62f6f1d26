//! A line of the log, for people.

use std::fmt::{self, Write as _};

use k8s_openapi::jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use kooper_runtime::internal::error::redaction::redact;

use super::super::step::is_deceptive;
use super::limit::{LONGEST, limited};

/// Time, level, spans, message and fields. In a line of kooper, a field that its spans
/// have, too, is not repeated.
pub(super) struct Line {
    /// `true` for a terminal, where a line needs no date.
    pub(super) is_terminal: bool,
    /// The spans whose trace is in their lines.
    #[cfg(feature = "otel")]
    pub(super) exported: super::trace_id::Exported,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let style = Style { colours: writer.has_ansi_escapes() };
        let mut line = String::new();
        self.write(context, Writer::new(&mut line), event, style)?;
        // The trace stays at the end of a line that is cut.
        let trace = self.trace(context, style);
        writeln!(writer, "{}{trace}", limited(&line, LONGEST - trace.len() - 1))
    }
}

impl Line {
    /// The id of the trace, if the line is within an exported span.
    #[cfg(feature = "otel")]
    fn trace<S, N>(&self, context: &FmtContext<'_, S, N>, style: Style) -> String
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        let shown = |id| format!(" {}trace_id={}{id}", style.dim(), style.end());
        self.exported.of(context).map(|ids| shown(ids.trace_id())).unwrap_or_default()
    }

    #[cfg(not(feature = "otel"))]
    fn trace<S, N>(&self, _: &FmtContext<'_, S, N>, _: Style) -> String {
        String::new()
    }

    /// Writes a line without its end.
    fn write<S, N>(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
        style: Style,
    ) -> fmt::Result
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        N: for<'a> FormatFields<'a> + 'static,
    {
        let metadata = event.metadata();
        let time = format!("{:.3}", Timestamp::now());
        let time = if self.is_terminal { time.split_once('T').map_or(&*time, |(_, time)| time) } else { &time };
        write!(writer, "{}{time}{} ", style.dim(), style.end())?;
        write!(writer, "{}{:>5}{} ", style.of(*metadata.level()), metadata.level().as_str(), style.end())?;
        let mut known: Vec<&'static Metadata<'static>> = Vec::new();
        if let Some(scope) = context.event_scope() {
            for span in scope.from_root() {
                known.push(span.metadata());
                write!(writer, "{}{}{}", style.bold(), span.name(), style.end())?;
                let extensions = span.extensions();
                if let Some(fields) = extensions.get::<FormattedFields<N>>().filter(|fields| !fields.is_empty()) {
                    write!(writer, "{{{fields}}}")?;
                }
                writer.write_char(':')?;
            }
            if !known.is_empty() {
                writer.write_char(' ')?;
            }
        }
        let ours = is_ours(metadata.target());
        if !ours {
            write!(writer, "{}{}:{} ", style.dim(), metadata.target(), style.end())?;
        }
        let is_known = |field: &Field| ours && known.iter().any(|span| span.fields().field(field.name()).is_some());
        let mut fields = Fields { writer: &mut writer, style, is_known: &is_known, is_first: true, result: Ok(()) };
        event.record(&mut fields);
        fields.result
    }
}

fn is_ours(target: &str) -> bool {
    let krate = target.split("::").next().unwrap_or_default();
    let parts =
        ["access", "base", "children", "program", "runtime", "serving", "sharding", "testing", "webhooks", "workloads"];
    krate == "kooper" || krate.strip_prefix("kooper_").is_some_and(|part| parts.contains(&part))
}

/// Writes the fields of a line.
struct Fields<'a, 'w> {
    writer: &'a mut Writer<'w>,
    style: Style,
    /// Returns `true` if a span of the line has the field.
    is_known: &'a dyn Fn(&Field) -> bool,
    is_first: bool,
    result: fmt::Result,
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        // Those that begin so belong to the bridge from the crate `log`.
        if self.result.is_err() || name.starts_with("log.") || (self.is_known)(field) {
            return;
        }
        let (dim, end) = (self.style.dim(), self.style.end());
        let blank = if std::mem::take(&mut self.is_first) { "" } else { " " };
        self.result = if name == "message" {
            write!(self.writer, "{blank}")
        } else {
            write!(self.writer, "{blank}{dim}{}={end}", name.trim_start_matches("r#"))
        };
        // Escaped, a secret with control characters is not recognized.
        let text = format!("{value:?}");
        self.result = self.result.and_then(|()| Escaped(self.writer).write_str(&redact(&text)));
    }
}

/// Begins another line of a value, unlike a line of the log.
const NEXT_LINE: &str = "\n    ";

/// Writes text without the characters with which a value could change the terminal, the
/// order of the text around it, or the lines before and after it.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_escaped = |char: char| is_deceptive(char) && char != '\t';
        for part in text.split_inclusive(is_escaped) {
            match part.chars().next_back().filter(|last| is_escaped(*last)) {
                Some(last) => {
                    self.0.write_str(part.get(..part.len() - last.len_utf8()).unwrap_or_default())?;
                    match last {
                        '\n' => self.0.write_str(NEXT_LINE)?,
                        _ => write!(self.0, "{}", last.escape_default())?,
                    }
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// Colours, where the log has them.
#[derive(Clone, Copy)]
struct Style {
    colours: bool,
}

impl Style {
    fn code(self, code: &'static str) -> &'static str {
        if self.colours { code } else { "" }
    }

    fn dim(self) -> &'static str {
        self.code("\x1b[2m")
    }

    fn bold(self) -> &'static str {
        self.code("\x1b[1m")
    }

    fn end(self) -> &'static str {
        self.code("\x1b[0m")
    }

    fn of(self, level: Level) -> &'static str {
        self.code(match level {
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            Level::DEBUG => "\x1b[34m",
            Level::TRACE => "\x1b[35m",
        })
    }
}
