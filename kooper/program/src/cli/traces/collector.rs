//! The collector that the environment configures, with the standard variables of
//! OpenTelemetry.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

/// The default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout for 0, which OpenTelemetry defines as no limit.
const UNLIMITED: Duration = Duration::from_secs(24 * 60 * 60);

/// The destination of spans.
#[derive(Debug, PartialEq)]
pub(crate) struct Collector {
    pub(crate) endpoint: Uri,
    /// The timeout of a request, including its response.
    pub(crate) timeout: Duration,
    /// Compresses requests with gzip.
    pub(crate) gzip: bool,
    /// The certificate authority of the collector, instead of those of the system.
    pub(crate) certificate: Option<PathBuf>,
    /// The service name, instead of the program's name.
    pub(crate) service: Option<String>,
}

/// A variable with an invalid value.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("invalid value '{value}' for the environment variable {variable}: {problem}")]
pub(crate) struct VariableError {
    variable: String,
    value: String,
    problem: &'static str,
}

/// The environment. An empty variable counts as unset.
struct Variables<F>(F);

type VariableResult<T> = Result<Option<T>, VariableError>;

impl Collector {
    /// The destination of spans; `None` if none is configured.
    pub(crate) fn find(environment: impl Fn(&str) -> Option<OsString>) -> VariableResult<Self> {
        let variables = Variables(environment);
        // Spans that are off need no valid endpoint. Without an endpoint, nothing else is read.
        let is_off = variables.is_off();
        if is_off == Ok(true) {
            return Ok(None);
        }
        let Some(endpoint) = variables.endpoint()? else { return Ok(None) };
        is_off?;
        variables.read_trace("PROTOCOL", |text| {
            let known = text == "http/protobuf";
            known.then_some(()).ok_or("only `http/protobuf` is supported: write that, or leave the variable unset")
        })?;
        let gzip = variables.read_trace("COMPRESSION", |text| match text {
            "gzip" => Ok(true),
            "none" => Ok(false),
            _ => Err("write `gzip`, or `none`, which is the default"),
        })?;
        let milliseconds = |text: &str| text.parse().map_err(|_| "write a whole number of milliseconds");
        let timeout = match variables.read_trace("TIMEOUT", milliseconds)? {
            None => TIMEOUT,
            Some(0) => UNLIMITED,
            Some(given) => Duration::from_millis(given),
        };
        Ok(Some(Self {
            endpoint,
            timeout,
            gzip: gzip.unwrap_or_default(),
            certificate: variables.read_trace("CERTIFICATE", |text| Ok(text.into()))?,
            service: variables.read("OTEL_SERVICE_NAME", |text| Ok(text.to_owned()))?,
        }))
    }
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    fn read<T>(&self, variable: &str, take: impl FnOnce(&str) -> Result<T, &'static str>) -> VariableResult<T> {
        let Some(value) = self.0(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
        let taken = value.to_str().map_or(Err("write it in UTF-8"), |text| take(text.trim()));
        taken.map(Some).map_err(|problem| VariableError {
            variable: variable.to_owned(),
            value: without_password(&value.display().to_string()),
            problem,
        })
    }

    /// The variable for traces, or else the one for all signals.
    fn read_trace<T>(&self, what: &str, take: impl Fn(&str) -> Result<T, &'static str>) -> VariableResult<T> {
        match self.read(&format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), &take)? {
            Some(taken) => Ok(Some(taken)),
            None => self.read(&format!("OTEL_EXPORTER_OTLP_{what}"), take),
        }
    }

    /// The URL for traces is used unchanged; the path for traces is added to the URL
    /// for all signals.
    fn endpoint(&self) -> VariableResult<Uri> {
        match self.read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)? {
            Some(endpoint) => Ok(Some(endpoint)),
            None => self.read("OTEL_EXPORTER_OTLP_ENDPOINT", |text| {
                url(text)?;
                url(&format!("{}/v1/traces", text.trim_end_matches('/')))
            }),
        }
    }

    fn is_off(&self) -> Result<bool, VariableError> {
        if self.read("OTEL_SDK_DISABLED", |text| Ok(text.eq_ignore_ascii_case("true")))? == Some(true) {
            return Ok(true);
        }
        let exporter = self.read("OTEL_TRACES_EXPORTER", |text| {
            let has = |name: &str| text.split(',').any(|exporter| exporter.trim() == name);
            match (has("none"), has("otlp")) {
                (true, _) => Ok(false),
                (false, true) => Ok(true),
                (false, false) => Err("write `otlp`, which is the default, or `none`"),
            }
        })?;
        Ok(exporter == Some(false))
    }
}

/// A value without what a URL has before an `@`, whether it is a valid URL or not.
fn without_password(text: &str) -> String {
    let begin = text.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = text.split_at(begin);
    match rest.rsplit_once('@') {
        Some((_, rest)) => format!("{scheme}…@{rest}"),
        None => text.to_owned(),
    }
}

fn url(text: &str) -> Result<Uri, &'static str> {
    const WANTED: &str = "write the URL of a collector that accepts OTLP over HTTP, such as `http://collector:4318`";
    let url: Uri = text.parse().map_err(|_| WANTED)?;
    let usable = matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty());
    if usable { Ok(url) } else { Err(WANTED) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    fn found(environment: &[(&str, &str)]) -> VariableResult<Collector> {
        let environment: HashMap<_, _> = environment.iter().copied().collect();
        Collector::find(|name| environment.get(name).map(OsString::from))
    }

    fn collector(environment: &[(&str, &str)]) -> Collector {
        found(environment).expect("the variables are valid").expect("a collector is configured")
    }

    #[test]
    fn only_an_endpoint_enables_the_export() {
        for environment in [
            &[][..],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[("OTEL_SERVICE_NAME", "shop")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "True")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"), ("OTEL_SDK_DISABLED", "true")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"), ("OTEL_TRACES_EXPORTER", "none")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "zipkin")],
            &[("OTEL_TRACES_EXPORTER", "zipkin")],
        ] {
            assert_eq!(found(environment), Ok(None), "{environment:?}");
        }
        for more in [("OTEL_SDK_DISABLED", "false"), ("OTEL_TRACES_EXPORTER", "console, otlp"), ("OTHER", "")] {
            assert_eq!(collector(&[ENDPOINT, more]).endpoint, "http://collector:4318/v1/traces", "{more:?}");
        }
    }

    #[test]
    fn the_password_of_an_invalid_endpoint_is_not_shown() {
        for (value, shown) in [
            ("grpc://user:s3cret@collector:4317", "grpc://…@collector:4317"),
            ("user:s3cret@collector:4317", "…@collector:4317"),
            ("http://user:s3@cret@", "http://…@"),
            ("grpc://collector:4317", "grpc://collector:4317"),
        ] {
            for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
                let error = found(&[(variable, value)]).expect_err("it is invalid").to_string();
                assert!(error.contains(&format!("'{shown}'")), "{error}");
            }
        }
    }

    #[test]
    fn the_path_is_added_to_the_endpoint_for_all_signals_only() {
        for (variable, value, endpoint) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a/", "https://a/v1/traces"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1/b", "http://a:1/b/v1/traces"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:1/b", "http://a:1/b"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:1", "http://[::1]:1/"),
        ] {
            assert_eq!(collector(&[(variable, value)]).endpoint, endpoint, "{variable}={value}");
        }
        let both = [ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:1/")];
        assert_eq!(collector(&both).endpoint, "http://traces:1/");
    }

    #[test]
    fn variables_for_traces_take_precedence() {
        let plain = collector(&[ENDPOINT]);
        assert_eq!((plain.timeout, plain.gzip, plain.certificate, plain.service), (TIMEOUT, false, None, None));
        let traces = collector(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/a/ca.crt"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_SERVICE_NAME", "shop"),
        ]);
        assert_eq!(traces.timeout, Duration::from_millis(2500));
        let unlimited =
            collector(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"), ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0")]);
        assert_eq!(unlimited.timeout, UNLIMITED, "no request would end within 0 ms");
        assert!(traces.gzip);
        assert_eq!(traces.certificate, Some("/a/ca.crt".into()));
        assert_eq!(traces.service.as_deref(), Some("shop"));
    }

    #[test]
    fn an_invalid_variable_is_reported_with_what_to_write() {
        for endpoint in ["collector:4318", "collector", "grpc://collector:4317", "http://", "/v1/traces", "http://a b"]
        {
            let error = found(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]).expect_err(endpoint).to_string();
            assert!(error.starts_with(&format!("invalid value '{endpoint}' for the environment variable OTEL_")));
            assert!(error.ends_with("such as `http://collector:4318`"), "{error}");
        }
        for (variable, value, expected) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only `http/protobuf`"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "write `gzip`"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "`otlp`"),
        ] {
            let error = found(&[ENDPOINT, (variable, value)]).expect_err(value).to_string();
            assert!(error.contains(&format!(" {variable}: ")) && error.contains(expected), "{error}");
        }
    }
}
