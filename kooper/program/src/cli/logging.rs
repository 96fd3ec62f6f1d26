//! The log: its destination, its format and its filters.

mod limit;
mod line;
#[cfg(feature = "otel")]
mod trace_id;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, error};
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use kooper_runtime::internal::error::redaction::redact;

use super::step::is_deceptive;
use limit::LimitedJson;
use line::Line;

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line, for machines.
    Json,
}

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// kube logs each failed request as an error without details. The sender of the
/// request logs its purpose and what to do.
const NOISE: &str = "kube_client::client::builder";

/// kube logs the bodies of responses that it cannot decode, and of rejections: they
/// may contain secrets, so they are hidden at every level.
const BODIES: &str = "kube_client::client";

/// A filter by these levels that also hides bodies.
pub(super) fn guarded(levels: Targets) -> impl Filter<Registry> {
    levels.and(filter_fn(|metadata| metadata.target() != BODIES))
}

/// Reads levels such as `debug` or `info,kube=debug`. The default for targets that
/// are not listed is `info`.
pub(crate) fn levels(text: &str) -> Result<Targets, String> {
    let mut targets = Targets::new().with_default(LevelFilter::INFO);
    let (mut verbose, mut asked_for_noise) = (false, false);
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        targets = match part.split_once('=') {
            Some((target, of)) if !target.trim().is_empty() => {
                asked_for_noise |= NOISE.starts_with(target.trim());
                targets.with_target(target.trim(), level(of)?)
            }
            Some(_) => return Err(format!("`{part}` has no target: write one before the `=`, such as `kube=debug`")),
            None => {
                let level = level(part)?;
                verbose = level > LevelFilter::INFO;
                targets.with_default(level)
            }
        };
    }
    Ok(if verbose || asked_for_noise { targets } else { targets.with_target(NOISE, LevelFilter::OFF) })
}

fn level(text: &str) -> Result<LevelFilter, String> {
    let known = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim()));
    known.map(|(_, level)| *level).ok_or_else(|| {
        let meant = kooper_grammar::suggest::nearest(text, LEVELS.map(|(name, _)| name));
        let meant = meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
        format!(
            "`{text}` is not a log level{meant}: write off, error, warn, info, debug or trace, or one for a target, such as \
             `info,kube=debug`"
        )
    })
}

/// The layer that exports spans, beside the log.
pub(crate) type Spans = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts to log to stderr, unless the program has installed its own logger.
pub(crate) fn start(format: LogFormat, levels: Targets, spans: Option<Spans>) {
    let is_terminal = std::io::stderr().is_terminal();
    let style = LineStyle { is_terminal, colours: is_terminal && !refuses_colours(|name| std::env::var_os(name)) };
    if logger(format, levels, style, std::io::stderr, spans).try_init().is_ok() {
        log_panics(format);
    }
}

/// Returns `true` if the user wants no colours, or the terminal has none, as in Emacs.
pub(super) fn refuses_colours(environment: impl Fn(&str) -> Option<OsString>) -> bool {
    environment("NO_COLOR").is_some_and(|value| !value.is_empty()) || environment("TERM").is_some_and(|is| is == "dumb")
}

/// The appearance of a line in text format.
#[derive(Debug, Clone, Copy)]
struct LineStyle {
    is_terminal: bool,
    colours: bool,
}

fn logger<W>(format: LogFormat, levels: Targets, style: LineStyle, writer: W, spans: Option<Spans>) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // If stderr is closed, the next line would panic without `log_internal_errors(false)`.
    let lines = fmt::layer::<Registry>().with_writer(writer).log_internal_errors(false);
    let LineStyle { is_terminal, colours } = style;
    #[cfg(feature = "otel")]
    let exported = trace_id::Exported::default();
    let lines = match format {
        LogFormat::Text => {
            let line = Line {
                is_terminal,
                #[cfg(feature = "otel")]
                exported: exported.clone(),
            };
            lines.with_ansi(colours).event_format(line).boxed()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            #[cfg(feature = "otel")]
            let lines = lines.map_event_format(|inner| trace_id::WithIds { inner, exported: exported.clone() });
            lines.map_event_format(LimitedJson).boxed()
        }
    };
    let lines = lines.with_filter(guarded(levels));
    let logger = match spans {
        Some(spans) => tracing_subscriber::registry().with(lines.and_then(spans)).into(),
        None => tracing_subscriber::registry().with(lines).into(),
    };
    #[cfg(feature = "otel")]
    exported.set(&logger);
    logger
}

/// Writes panics into the log that must not be printed as they are.
fn log_panics(format: LogFormat) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        let payload = panic.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let message = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("(a panic without a message)");
        if !is_logged(format, message) {
            return before(panic);
        }
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        error!(place, thread = thread.name().unwrap_or_default(), "panic: {message}");
    }));
}

/// Returns `true` for the message of a panic that has something to hide or could control the terminal, as it may quote
/// an object, and for each one if every line of the log is JSON.
fn is_logged(format: LogFormat, message: &str) -> bool {
    let controls = |char: char| is_deceptive(char) && !matches!(char, '\n' | '\t');
    format == LogFormat::Json || redact(message) != message || message.contains(controls)
}

/// Writes a line to stderr, independent of the log level.
pub(crate) fn print(line: &str) {
    drop(writeln!(std::io::stderr(), "{}", redact(line)));
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, text: &str, colours: bool) -> String {
        logged_by(format, text, LineStyle { is_terminal: colours, colours }, || {
            let _span = tracing::info_span!("call", controller = "echo").entered();
            tracing::info!(key = "default/a", "seen");
            tracing::debug!("details");
            tracing::debug!(target: "kube", "requesting");
            tracing::error!(target: NOISE, "failed");
            tracing::error!(target: BODIES, "canary");
        })
    }

    fn logged_by(format: LogFormat, text: &str, style: LineStyle, log: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let logger = logger(format, levels(text).expect("levels"), style, move || writer.clone(), None);
        tracing::dispatcher::with_default(&logger, log);
        let bytes = written.0.lock().clone();
        let lines = String::from_utf8(bytes).expect("UTF-8");
        assert!(!lines.contains("canary"), "{lines}");
        lines
    }

    #[test]
    fn text_has_one_line_per_event_and_colours_only_on_request() {
        let text = logged(LogFormat::Text, "", false);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains(r#" INFO call{controller="echo"}:"#) && text.contains(r#"seen key="default/a""#),
            "{text}"
        );
        assert!(!text.contains('\x1b'), "{text}");
        assert!(logged(LogFormat::Text, "", true).contains('\x1b'));
    }

    #[test]
    fn the_environment_refuses_colours_by_no_color_or_for_a_terminal_without_them() {
        for (variable, value, refused) in
            [("NO_COLOR", "1", true), ("NO_COLOR", "", false), ("TERM", "dumb", true), ("TERM", "xterm", false)]
        {
            let environment = |name: &str| (name == variable).then(|| OsString::from(value));
            assert_eq!(refuses_colours(environment), refused, "{variable}={value}");
        }
    }

    /// A line of ours in a call, without its time.
    fn line_of_a_call(levels: &str, style: LineStyle) -> (String, String) {
        let text = logged_by(LogFormat::Text, levels, style, || {
            let key = "production/frontend-eu-west-1";
            let _span = tracing::info_span!(
                "call", controller = %"frontends", key = %key, attempt = 12_i64, reasons = %"retry",
                otel.status_code = tracing::field::Empty,
            )
            .entered();
            tracing::warn!(target: "kooper_runtime::call::worker", controller = %"frontends", key = %key, attempt = 12_u32, "the handler failed: shut; it is retried in 1.28s");
        });
        let (time, rest) = text.split_once(' ').expect("a time");
        (time.to_owned(), rest.to_owned())
    }

    #[test]
    fn a_line_of_a_call_has_each_field_once_and_fits_a_terminal() {
        let (time, line) = line_of_a_call("", LineStyle { is_terminal: true, colours: false });
        assert_eq!(
            line,
            " WARN call{controller=frontends key=production/frontend-eu-west-1 attempt=12 reasons=retry}: \
             the handler failed: shut; it is retried in 1.28s\n"
        );
        assert!(time.len() == "15:04:05.678Z".len() && time.ends_with('Z'), "{time}");
        assert!(time.len() + line.len() <= 160, "{}", time.len() + line.len());
        let (time, _) = line_of_a_call("", LineStyle { is_terminal: false, colours: false });
        assert_eq!((time.len(), time.get(10..11)), ("2006-01-02T15:04:05.678Z".len(), Some("T")));
        let (_, colours) = line_of_a_call("", LineStyle { is_terminal: true, colours: true });
        assert!(colours.contains("\x1b[33m WARN\x1b[0m") && colours.matches("attempt").count() == 1, "{colours}");
    }

    #[test]
    fn a_line_without_its_span_names_the_controller() {
        let (_, line) = line_of_a_call("warn", LineStyle { is_terminal: true, colours: false });
        assert_eq!(
            line,
            " WARN the handler failed: shut; it is retried in 1.28s controller=frontends \
             key=production/frontend-eu-west-1 attempt=12\n"
        );
    }

    #[test]
    fn a_line_of_another_crate_keeps_its_fields_and_control_characters_are_escaped() {
        let style = LineStyle { is_terminal: true, colours: false };
        let text = logged_by(LogFormat::Text, "", style, || {
            let _span = tracing::info_span!("call", key = %"a").entered();
            tracing::info!(target: "shop", key = %"b\x1b[2J", name = "\x1b[1m", "\x1b[31mred\u{9b}1m\u{7f}\u{202e}");
        });
        let (_, line) = text.split_once(' ').expect("a time");
        let expected =
            " INFO call{key=a}: shop: \\u{1b}[31mred\\u{9b}1m\\u{7f}\\u{202e} key=b\\u{1b}[2J name=\"\\u{1b}[1m\"\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_value_with_several_lines_does_not_look_like_several_lines_of_the_log() {
        let style = LineStyle { is_terminal: true, colours: false };
        let text = logged_by(LogFormat::Text, "", style, || {
            tracing::warn!(target: "shop", key = %"a\nb", "first\n15:04:05.678Z ERROR second\r\nthird");
        });
        let (_, line) = text.split_once(' ').expect("a time");
        assert_eq!(line, " WARN shop: first\n    15:04:05.678Z ERROR second\\r\n    third key=a\n    b\n");
    }

    #[test]
    fn a_panic_that_could_control_the_terminal_is_not_printed_as_it_is() {
        for (message, expected) in [
            ("assertion failed\n\tleft: 1", false),
            ("no mode `\x1b[2J`", true),
            ("no mode `\u{202e}`", true),
            ("cannot reach https://me:pass@shop", true),
        ] {
            assert_eq!(is_logged(LogFormat::Text, message), expected, "{message:?}");
            assert!(is_logged(LogFormat::Json, message));
        }
    }

    #[test]
    fn a_known_secret_and_the_user_information_of_a_url_are_in_no_line() {
        let style = LineStyle { is_terminal: false, colours: false };
        let secrets = ["kl-\"7f3a91\"\nline", "kl-\"7f3a91\"\r\nline"];
        secrets.into_iter().for_each(kooper_runtime::internal::error::redaction::remember);
        for (secret, format) in secrets.into_iter().flat_map(|one| [(one, LogFormat::Text), (one, LogFormat::Json)]) {
            let text = logged_by(format, "", style, || {
                let _span = tracing::info_span!("call", key = %secret).entered();
                tracing::info!(secret, "{secret} at https://me:pass@shop");
                tracing::info!(secrets = ?[secret], "seen");
            });
            assert!(!text.contains("7f3a91") && !text.contains("pass@"), "{text}");
            assert_eq!(text.matches("https://[redacted]@shop").count(), 1, "{text}");
            if format == LogFormat::Json {
                let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
                assert!(text.lines().count() == 2 && text.lines().all(read), "{text}");
            }
        }
    }

    #[test]
    fn a_line_has_four_kilobytes_at_most() {
        let style = LineStyle { is_terminal: true, colours: true };
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged_by(format, "", style, || {
                tracing::info!(error = %"é\n".repeat(5_000), "failed: {}", "x".repeat(5_000));
            });
            assert!((3_000..=4_096).contains(&text.len()), "{}", text.len());
            assert!(text.contains(" more bytes)"), "{text}");
        }
    }

    #[test]
    fn json_has_one_object_per_line() {
        let text = logged(LogFormat::Json, "", true);
        let line: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "seen");
        assert_eq!(line["key"], "default/a");
        assert_eq!(line["spans"][0]["controller"], "echo");
    }

    /// An exporter that keeps the spans.
    #[cfg(feature = "otel")]
    #[derive(Debug, Clone, Default)]
    struct SpanKeeper(Arc<Mutex<Vec<opentelemetry_sdk::trace::SpanData>>>);

    #[cfg(feature = "otel")]
    impl opentelemetry_sdk::trace::SpanExporter for SpanKeeper {
        async fn export(
            &self,
            batch: Vec<opentelemetry_sdk::trace::SpanData>,
        ) -> opentelemetry_sdk::error::OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }
    }

    #[cfg(feature = "otel")]
    #[test]
    fn a_line_within_an_exported_span_has_its_ids_and_another_one_has_none() {
        use opentelemetry::trace::TracerProvider;
        use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

        for (format, sampler, expected) in [
            (LogFormat::Text, Sampler::AlwaysOn, true),
            (LogFormat::Json, Sampler::AlwaysOn, true),
            (LogFormat::Text, Sampler::AlwaysOff, false),
            (LogFormat::Json, Sampler::AlwaysOff, false),
        ] {
            let exporter = SpanKeeper::default();
            let provider =
                SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(exporter.clone()).build();
            let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
            let spans = spans.with_filter(guarded(levels("").expect("levels"))).boxed();
            let written = Written::default();
            let writer = written.clone();
            let style = LineStyle { is_terminal: false, colours: false };
            let logger = logger(format, levels("").expect("levels"), style, move || writer.clone(), Some(spans));
            tracing::dispatcher::with_default(&logger, || {
                tracing::info!("before");
                tracing::info_span!("call", key = "a").in_scope(|| tracing::info!("within"));
            });
            let text = String::from_utf8(written.0.lock().clone()).expect("UTF-8");
            let [before, within] = text.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {text}") };
            assert!(!before.contains("trace_id"), "{before}");
            let spans = exporter.0.lock().clone();
            assert_eq!(spans.len(), usize::from(expected));
            let ids = spans.first().map(|span| (span.span_context.trace_id(), span.span_context.span_id()));
            let Some((trace, span)) = ids else {
                assert!(!within.contains("trace_id"), "{within}");
                continue;
            };
            if format == LogFormat::Text {
                assert!(within.ends_with(&format!("within trace_id={trace}")), "{within}");
            } else {
                let line: serde_json::Value = serde_json::from_str(within).expect("one object");
                let expected = (trace.to_string(), span.to_string());
                assert_eq!((&line["trace_id"], &line["span_id"]), (&expected.0.into(), &expected.1.into()));
                assert_eq!((&line["message"], &line["spans"][0]["key"]), (&"within".into(), &"a".into()));
            }
        }
    }

    #[test]
    fn levels_are_for_all_or_for_a_target() {
        for (text, lines) in [
            ("", 1),
            ("debug", 4),
            ("DEBUG", 4),
            ("kube=debug", 3),
            ("off,kube=debug", 2),
            ("warn", 0),
            ("hyper=debug", 1),
            ("trace,kube_client::client=trace", 4),
        ] {
            assert_eq!(logged(LogFormat::Text, text, false).lines().count(), lines, "{text}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_level_lists_the_levels() {
        assert_eq!(
            levels("inof").expect_err("not a level"),
            "`inof` is not a log level (did you mean `info`?): write off, error, warn, info, debug or trace, or one for a \
             target, such as `info,kube=debug`"
        );
        assert!(levels("kube=loud").expect_err("not a level").starts_with("`loud` is not a log level: "));
        assert!(levels("=debug").expect_err("no target").starts_with("`=debug` has no target"));
    }
}
