//! The HTTP client of the spans: the one that kube brings, so that there is no
//! second TLS, on the thread that collects them.

use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
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

use super::collector::Collector;
use crate::error::chain;

/// Answers are a few bytes long; a longer one is not read.
const LONGEST_ANSWER: usize = 64 * 1024;

/// A collector that is away is told of no more often.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Sends requests, each to its end.
#[derive(Debug)]
pub(crate) struct Sender {
    runtime: Runtime,
    client: Quiet<Client>,
    endpoint: Uri,
    timeout: Duration,
    failures: Mutex<Failures>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SenderError {
    #[error("the client cannot be built: {}", chain(.0))]
    Client(#[from] kube::Error),
    #[error("there is no runtime for the client: {0}")]
    Runtime(#[from] io::Error),
}

impl Sender {
    pub(crate) fn new(collector: &Collector) -> Result<Self, SenderError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = {
            let _context = runtime.enter();
            ClientBuilder::try_from(config(collector))?.build()
        };
        let (endpoint, timeout) = (collector.endpoint.clone(), collector.timeout);
        Ok(Self { runtime, client: Quiet(client), endpoint, timeout, failures: Mutex::default() })
    }

    /// Sends one. What the client has to say is dropped: it would log each
    /// failure, and its spans would be the next to be sent, and so on for ever.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async { tokio::time::timeout(self.timeout, exchange(&self.client.0, request)).await };
        let answered = match with_default(&Dispatch::none(), || self.runtime.block_on(exchange)) {
            Ok(answered) => answered,
            Err(_elapsed) => Err(format!("there was no answer within {:?}", self.timeout).into()),
        };
        let problem = match &answered {
            Ok(answer) => problem(answer.status()),
            Err(error) => Some(chain(&**error)),
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.count(problem.is_some(), Instant::now()) {
            Tell::Nothing => {}
            Tell::Failing => tracing::warn!(
                endpoint = %self.endpoint,
                requests = failures.requests,
                "spans cannot be sent: {}; those that find no place to wait are dropped",
                problem.unwrap_or_default()
            ),
            Tell::Again => tracing::info!(endpoint = %self.endpoint, "spans are sent again"),
        }
        answered
    }
}

impl HttpClient for Sender {
    /// Blocks the thread that calls it, which is there for nothing else.
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
    // Without this the certificates of the system are read, which need not
    // be there where nobody asks for them.
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
    let body = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

fn problem(status: StatusCode) -> Option<String> {
    let hint = match status {
        status if status.is_success() => return None,
        StatusCode::NOT_FOUND => ", which is not an endpoint for OTLP over HTTP",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": OTEL_EXPORTER_OTLP_HEADERS may name who sends them",
        _ => "",
    };
    Some(format!("the answer was {status}{hint}"))
}

/// What failed since the last success, and when that was told.
#[derive(Debug, Default)]
struct Failures {
    requests: u64,
    told: Option<Instant>,
}

/// What is worth a line of the log.
#[derive(Debug, PartialEq)]
enum Tell {
    Nothing,
    Failing,
    Again,
}

impl Failures {
    fn count(&mut self, failed: bool, now: Instant) -> Tell {
        if !failed {
            let told = std::mem::take(self).told.is_some();
            return if told { Tell::Again } else { Tell::Nothing };
        }
        self.requests += 1;
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < TELL_EVERY) {
            return Tell::Nothing;
        }
        self.told = Some(now);
        Tell::Failing
    }
}

/// What has no text of its own.
struct Quiet<T>(T);

impl<T> std::fmt::Debug for Quiet<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_is_away_is_told_of_once_a_minute_and_when_it_is_back() {
        let mut failures = Failures::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let told = [
            (false, 0, Tell::Nothing),
            (true, 5, Tell::Failing),
            (true, 10, Tell::Nothing),
            (true, 64, Tell::Nothing),
            (true, 65, Tell::Failing),
            (false, 70, Tell::Again),
            (false, 75, Tell::Nothing),
            (true, 80, Tell::Failing),
        ];
        for (failed, seconds, tell) in told {
            assert_eq!(failures.count(failed, at(seconds)), tell, "{seconds} s");
        }
        assert_eq!(failures.requests, 1);
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
    fn an_answer_that_refuses_says_what_to_look_at() {
        assert_eq!(problem(StatusCode::OK), None);
        assert_eq!(
            problem(StatusCode::NOT_FOUND).as_deref(),
            Some("the answer was 404 Not Found, which is not an endpoint for OTLP over HTTP")
        );
        assert_eq!(problem(StatusCode::BAD_GATEWAY).as_deref(), Some("the answer was 502 Bad Gateway"));
    }
}
