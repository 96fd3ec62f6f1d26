//! The layer that counts a Kubernetes client's requests.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use prometheus::IntCounterVec;
use tower::{Layer, Service};

/// The code of a request without a response, as in client-go.
const NO_RESPONSE: &str = "<error>";

/// Counts the requests of a Kubernetes client in `rest_client_requests_total`;
/// created by [`Prometheus::client_layer`](super::Prometheus::client_layer).
#[derive(Debug, Clone)]
pub struct ClientLayer {
    requests: IntCounterVec,
    host: Arc<str>,
}

impl ClientLayer {
    /// A request that reaches the layer has no host yet, so the host is passed here.
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

/// The service that [`ClientLayer`] wraps a client's service in.
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
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            count.responded(response.status());
            Ok(response)
        })
    }
}

/// Counts when it is dropped, so that requests are counted whose caller stopped
/// waiting.
pub(super) struct Count {
    layer: ClientLayer,
    method: http::Method,
    code: Option<http::StatusCode>,
}

impl Count {
    /// A method, so that the future captures the whole value and not one field.
    fn responded(&mut self, code: http::StatusCode) {
        self.code = Some(code);
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let code = self.code.as_ref().map_or(NO_RESPONSE, http::StatusCode::as_str);
        self.layer.requests.with_label_values(&[code, self.method.as_str(), &self.layer.host]).inc();
    }
}
