//! The server as a service of this process.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response, header};

use crate::cluster::Cluster;
use crate::http::Body;
use crate::walk;

/// The server as a `tower::Service`, so that a client needs no socket.
#[derive(Clone, Debug)]
pub struct Service {
    cluster: Arc<Cluster>,
    authorization: Option<HeaderValue>,
}

impl Service {
    pub(super) fn new(cluster: &Arc<Cluster>, token: &str) -> Self {
        Self { cluster: Arc::clone(cluster), authorization: HeaderValue::from_str(&format!("Bearer {token}")).ok() }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    /// The connection is reset, as an injected fault requests.
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !request.headers().contains_key(header::AUTHORIZATION)
            && let Some(value) = &self.authorization
        {
            request.headers_mut().insert(header::AUTHORIZATION, value.clone());
        }
        let cluster = Arc::clone(&self.cluster);
        Box::pin(async move { walk::serve(&cluster, request).await })
    }
}
