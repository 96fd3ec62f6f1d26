//! The layer that counts a Kubernetes client's requests.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use prometheus::IntCounterVec;
use tower::{Layer, Service};

/// client-go's code for a request that no answer came to.
const NO_ANSWER: &str = "<error>";

/// Counts requests in `rest_client_requests_total`; made by
/// [`Prometheus::client_layer`](super::Prometheus::client_layer).
#[derive(Debug, Clone)]
pub struct ClientLayer {
    requests: IntCounterVec,
    host: Arc<str>,
}

impl ClientLayer {
    /// The requests that reach the layer have no host yet, so it is told here.
    pub(super) fn new(requests: IntCounterVec, server: &Uri) -> Self {
        let host = match (server.host(), server.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        Self { requests, host: host.into() }
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = CountRequests<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CountRequests { layer: self.clone(), inner }
    }
}

/// The service that [`ClientLayer`] makes.
#[derive(Debug, Clone)]
pub struct CountRequests<S> {
    layer: ClientLayer,
    inner: S,
}

impl<S> CountRequests<S> {
    pub(super) fn count(&self, method: http::Method) -> Count {
        Count { layer: self.layer.clone(), method, code: None }
    }
}

impl<S, B, R> Service<Request<B>> for CountRequests<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut count = self.count(request.method().clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            count.answered(answer.status());
            Ok(answer)
        })
    }
}

/// Counts when it is dropped: also where the caller gave up waiting.
pub(super) struct Count {
    layer: ClientLayer,
    method: http::Method,
    code: Option<http::StatusCode>,
}

impl Count {
    /// A method, so that the future takes all of the value and not a copy of
    /// one field.
    fn answered(&mut self, code: http::StatusCode) {
        self.code = Some(code);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let code = self.code.as_ref().map_or(NO_ANSWER, http::StatusCode::as_str);
        self.layer.requests.with_label_values(&[code, self.method.as_str(), &self.layer.host]).inc();
    }
}
