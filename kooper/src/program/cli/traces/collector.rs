//! The collector that the environment names, by the variables that every
//! OpenTelemetry program knows.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

/// How long one request may take, where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where spans go.
#[derive(Debug, PartialEq)]
pub(crate) struct Collector {
    pub(crate) endpoint: Uri,
    /// Of one request, with its answer.
    pub(crate) timeout: Duration,
    /// Who vouches for the collector, in place of whom the system trusts.
    pub(crate) certificate: Option<PathBuf>,
    /// A name for the program, in place of its own.
    pub(crate) service: Option<String>,
}

/// A variable that says what cannot be done.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("invalid value '{value}' for the environment variable {variable}: {problem}")]
pub(crate) struct VariableError {
    variable: String,
    value: String,
    problem: &'static str,
}

/// The environment. An empty variable counts as none.
struct Variables<F>(F);

type Read<T> = Result<Option<T>, VariableError>;

impl Collector {
    /// Where spans go; `None` where nobody asks for them.
    pub(crate) fn find(environment: impl Fn(&str) -> Option<OsString>) -> Read<Self> {
        let variables = Variables(environment);
        let Some(endpoint) = variables.endpoint()? else { return Ok(None) };
        if variables.is_off()? {
            return Ok(None);
        }
        variables.read_trace("PROTOCOL", |text| {
            let known = text == "http/protobuf";
            known.then_some(()).ok_or("spans are sent as `http/protobuf` alone: write that, or nothing")
        })?;
        let milliseconds = |text: &str| text.parse().map_err(|_| "write a whole number of milliseconds");
        let timeout = variables.read_trace("TIMEOUT", milliseconds)?;
        Ok(Some(Self {
            endpoint,
            timeout: timeout.map_or(TIMEOUT, Duration::from_millis),
            certificate: variables.read_trace("CERTIFICATE", |text| Ok(text.into()))?,
            service: variables.read("OTEL_SERVICE_NAME", |text| Ok(text.to_owned()))?,
        }))
    }
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    fn read<T>(&self, variable: &str, take: impl FnOnce(&str) -> Result<T, &'static str>) -> Read<T> {
        let Some(value) = self.0(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
        let taken = value.to_str().map_or(Err("write it in UTF-8"), |text| take(text.trim()));
        taken.map(Some).map_err(|problem| VariableError {
            variable: variable.to_owned(),
            value: value.display().to_string(),
            problem,
        })
    }

    /// What is said for traces, or else for all that is exported.
    fn read_trace<T>(&self, what: &str, take: impl Fn(&str) -> Result<T, &'static str>) -> Read<T> {
        match self.read(&format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), &take)? {
            Some(taken) => Ok(Some(taken)),
            None => self.read(&format!("OTEL_EXPORTER_OTLP_{what}"), take),
        }
    }

    /// The URL for traces is used as it is; that for all gets the path of traces.
    fn endpoint(&self) -> Read<Uri> {
        match self.read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)? {
            Some(endpoint) => Ok(Some(endpoint)),
            None => self.read("OTEL_EXPORTER_OTLP_ENDPOINT", |text| {
                url(text)?;
                url(&format!("{}/v1/traces", text.trim_end_matches('/')))
            }),
        }
    }

    fn is_off(&self) -> Result<bool, VariableError> {
        let disabled = self.read("OTEL_SDK_DISABLED", |text| Ok(text.eq_ignore_ascii_case("true")))?;
        let exporter = self.read("OTEL_TRACES_EXPORTER", |text| {
            let has = |name: &str| text.split(',').any(|exporter| exporter.trim() == name);
            match (has("none"), has("otlp")) {
                (true, _) => Ok(false),
                (false, true) => Ok(true),
                (false, false) => Err("write `otlp`, which is the default, or `none`"),
            }
        })?;
        Ok(disabled == Some(true) || exporter == Some(false))
    }
}

fn url(text: &str) -> Result<Uri, &'static str> {
    const WANTED: &str = "write the URL of a collector that takes OTLP over HTTP, such as `http://collector:4318`";
    let url: Uri = text.parse().map_err(|_| WANTED)?;
    let usable = matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty());
    if usable { Ok(url) } else { Err(WANTED) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    fn found(environment: &[(&str, &str)]) -> Read<Collector> {
        let environment: HashMap<_, _> = environment.iter().copied().collect();
        Collector::find(|name| environment.get(name).map(OsString::from))
    }

    fn collector(environment: &[(&str, &str)]) -> Collector {
        found(environment).expect("the variables are right").expect("spans are asked for")
    }

    #[test]
    fn only_an_endpoint_asks_for_spans() {
        for environment in [
            &[][..],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[("OTEL_SERVICE_NAME", "shop")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "true")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "True")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert_eq!(found(environment), Ok(None), "{environment:?}");
        }
        for more in [("OTEL_SDK_DISABLED", "false"), ("OTEL_TRACES_EXPORTER", "console, otlp"), ("OTHER", "")] {
            assert_eq!(collector(&[ENDPOINT, more]).endpoint, "http://collector:4318/v1/traces", "{more:?}");
        }
    }

    #[test]
    fn the_endpoint_for_all_gets_a_path_and_that_for_traces_none() {
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
    fn what_is_said_for_traces_wins() {
        let plain = collector(&[ENDPOINT]);
        assert_eq!((plain.timeout, plain.certificate, plain.service), (TIMEOUT, None, None));
        let said = collector(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/a/ca.crt"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_SERVICE_NAME", "shop"),
        ]);
        assert_eq!(said.timeout, Duration::from_millis(2500));
        assert_eq!(said.certificate, Some("/a/ca.crt".into()));
        assert_eq!(said.service.as_deref(), Some("shop"));
    }

    #[test]
    fn a_wrong_variable_is_told_with_what_to_write() {
        for endpoint in ["collector:4318", "collector", "grpc://collector:4317", "http://", "/v1/traces", "http://a b"]
        {
            let error = found(&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]).expect_err(endpoint).to_string();
            assert!(error.starts_with(&format!("invalid value '{endpoint}' for the environment variable OTEL_")));
            assert!(error.ends_with("such as `http://collector:4318`"), "{error}");
        }
        for (variable, value, says) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "`http/protobuf` alone"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s", "milliseconds"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "`otlp`"),
        ] {
            let error = found(&[ENDPOINT, (variable, value)]).expect_err(value).to_string();
            assert!(error.contains(&format!(" {variable}: ")) && error.contains(says), "{error}");
        }
    }
}
