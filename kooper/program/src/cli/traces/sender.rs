//! The HTTP client of the exporter: that of kube, to avoid a second TLS stack. It runs
//! on the exporter's thread.

use parking_lot::Mutex;
use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use kube::client::{Body, Client, ClientBuilder};
use kube::config::Config;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::{Builder, Runtime};
use tracing::Dispatch;
use tracing::dispatcher::with_default;

use super::super::connect::shown;
use super::collector::Collector;
use crate::block_on::block_on;
use kooper_runtime::internal::error::chain;

/// Responses are a few bytes long; a longer one is not read.
const LONGEST_RESPONSE: usize = 64 * 1024;

/// Minimum time between two log lines about an unavailable collector.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Sends requests, one at a time.
#[derive(Debug)]
pub(crate) struct Sender {
    runtime: Runtime,
    client: WithoutDebug<Client>,
    endpoint: Uri,
    timeout: Duration,
    failures: Mutex<SendFailures>,
}

/// Why the client cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SenderError {
    #[error("the client cannot be built")]
    Client(#[source] kube::Error),
    #[error("the certificate authority of the collector, {}, cannot be used", file.display())]
    Certificate { file: PathBuf, source: kube::Error },
    #[error("the runtime of the client cannot be started")]
    Runtime(#[from] io::Error),
}

impl Sender {
    pub(crate) fn new(collector: &Collector) -> Result<Self, SenderError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let config = config(collector);
        let file = config.root_cert_file.clone();
        let client = {
            let _context = runtime.enter();
            let built = ClientBuilder::try_from(config).map_err(|source| match file {
                Some(file) => SenderError::Certificate { file, source },
                None => SenderError::Client(source),
            });
            built?.build()
        };
        let (endpoint, timeout) = (collector.endpoint.clone(), collector.timeout);
        Ok(Self { runtime, client: WithoutDebug(client), endpoint, timeout, failures: Mutex::default() })
    }

    /// Sends a request. The client's own logs and spans are dropped: its spans would
    /// be exported, too, without end.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async { tokio::time::timeout(self.timeout, exchange(&self.client.0, request)).await };
        let answered = match with_default(&Dispatch::none(), || block_on(&self.runtime, exchange)) {
            Ok(answered) => answered,
            Err(_elapsed) => Err(format!("there was no response within {:?}", self.timeout).into()),
        };
        let problem = match &answered {
            Ok(answer) => problem(answer.status()),
            Err(error) => Some(chain(&**error)),
        };
        let mut failures = self.failures.lock();
        match failures.count(problem.is_some(), Instant::now()) {
            Log::Nothing => {}
            Log::Failing => tracing::warn!(
                endpoint = shown(&self.endpoint),
                requests = failures.requests,
                "spans cannot be exported: {}; spans beyond the limit of the queue are dropped",
                problem.unwrap_or_default()
            ),
            Log::Again => tracing::info!(endpoint = shown(&self.endpoint), "spans are exported again"),
        }
        answered
    }
}

impl HttpClient for Sender {
    /// Blocks the calling thread, which only exports spans.
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(ready(self.send(request)))
    }
}

fn config(collector: &Collector) -> Config {
    let plain = collector.endpoint.scheme_str() == Some("http");
    let mut config = Config::new(server(&collector.endpoint));
    // Otherwise the certificates of the system are read, which may not exist if they are not needed.
    config.root_cert = (plain || collector.certificate.is_some()).then(Vec::new);
    config.root_cert_file = collector.certificate.clone().filter(|_| !plain);
    config.default_retry = false;
    config
}

/// A URL without its path: the client puts it before the path of the request.
fn server(endpoint: &Uri) -> Uri {
    let mut parts = endpoint.clone().into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    Uri::from_parts(parts).unwrap_or_else(|_| endpoint.clone())
}

async fn exchange(client: &Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    let body = Limited::new(body, LONGEST_RESPONSE).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

fn problem(status: StatusCode) -> Option<String> {
    let hint = match status {
        status if status.is_success() => return None,
        StatusCode::NOT_FOUND => ", which is not an endpoint for OTLP over HTTP",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": set credentials with OTEL_EXPORTER_OTLP_HEADERS",
        _ => "",
    };
    Some(format!("the response was {status}{hint}"))
}

/// The failures since the last success, and when they were last logged.
#[derive(Debug, Default)]
struct SendFailures {
    requests: u64,
    logged: Option<Instant>,
}

/// The log line that a result causes.
#[derive(Debug, PartialEq)]
enum Log {
    Nothing,
    Failing,
    Again,
}

impl SendFailures {
    fn count(&mut self, failed: bool, now: Instant) -> Log {
        if !failed {
            let logged = std::mem::take(self).logged.is_some();
            return if logged { Log::Again } else { Log::Nothing };
        }
        self.requests += 1;
        if self.logged.is_some_and(|logged| now.saturating_duration_since(logged) < LOG_EVERY) {
            return Log::Nothing;
        }
        self.logged = Some(now);
        Log::Failing
    }
}

/// A value without `Debug` output.
struct WithoutDebug<T>(T);

impl<T> std::fmt::Debug for WithoutDebug<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_collector_is_logged_once_a_minute_and_when_it_is_back() {
        let mut failures = SendFailures::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let logged = [
            (false, 0, Log::Nothing),
            (true, 5, Log::Failing),
            (true, 10, Log::Nothing),
            (true, 64, Log::Nothing),
            (true, 65, Log::Failing),
            (false, 70, Log::Again),
            (false, 75, Log::Nothing),
            (true, 80, Log::Failing),
        ];
        for (failed, seconds, tell) in logged {
            assert_eq!(failures.count(failed, at(seconds)), tell, "{seconds} s");
        }
        assert_eq!(failures.requests, 1);
    }

    #[test]
    fn the_file_of_a_certificate_authority_that_cannot_be_used_is_named() {
        let collector = Collector {
            endpoint: Uri::from_static("https://127.0.0.1:1"),
            timeout: Duration::from_secs(1),
            gzip: false,
            certificate: Some("/nonexistent/ca.crt".into()),
            service: None,
        };
        let error = chain(&Sender::new(&collector).expect_err("the file does not exist"));
        let named = "the certificate authority of the collector, /nonexistent/ca.crt, cannot be used: ";
        assert!(error.starts_with(named), "{error}");
    }

    #[test]
    fn the_server_is_the_endpoint_without_its_path() {
        for (endpoint, at) in [
            ("http://collector:4318/v1/traces", "http://collector:4318/"),
            ("https://a/b/c?d=e", "https://a/"),
            ("http://[::1]:1", "http://[::1]:1/"),
        ] {
            assert_eq!(server(&endpoint.parse().expect("a URL")), at, "{endpoint}");
        }
    }

    #[test]
    fn a_rejection_is_reported_with_what_to_check() {
        assert_eq!(problem(StatusCode::OK), None);
        assert_eq!(
            problem(StatusCode::NOT_FOUND).as_deref(),
            Some("the response was 404 Not Found, which is not an endpoint for OTLP over HTTP")
        );
        assert_eq!(problem(StatusCode::BAD_GATEWAY).as_deref(), Some("the response was 502 Bad Gateway"));
    }
}
