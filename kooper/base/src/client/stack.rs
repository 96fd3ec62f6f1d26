//! The layers that requests pass on their way to the API server.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::Client;
use kube::client::Body;
use tower::layer::layer_fn;
use tower::util::{BoxCloneSyncService, BoxCloneSyncServiceLayer};
use tower::{Layer, service_fn};

use crate::error::BoxError;

/// Where a layer sends requests to: the next layer inside, or the client.
pub type Next = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, BoxError>;

/// Middleware of requests.
pub type RequestLayer = BoxCloneSyncServiceLayer<Next, Request<Body>, Response<ResponseBody>, BoxError>;

/// Only kube's own client can make kube's [`Body`] from another one.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// A client and the layers around it, which do not know each other. A request passes
/// the last one first.
#[derive(Clone)]
pub struct ClientStack {
    client: Client,
    layers: Vec<RequestLayer>,
}

impl ClientStack {
    /// A stack without layers.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, layers: Vec::new() }
    }

    /// Adds layers, each outside of those before.
    #[must_use]
    pub fn with(mut self, layers: impl IntoIterator<Item = RequestLayer>) -> Self {
        self.layers.extend(layers);
        self
    }

    /// The client whose requests pass all layers. It must be called within a runtime,
    /// like the constructor of every client.
    #[must_use]
    pub fn client(&self) -> Client {
        if self.layers.is_empty() {
            return self.client.clone();
        }
        let client = self.client.clone();
        let innermost = Next::new(service_fn(move |request| {
            let client = client.clone();
            async move { Ok(client.send(request).await?.map(boxed)) }
        }));
        let service = self.layers.iter().fold(innermost, |inner, layer| layer.layer(inner));
        Client::new(service, self.client.default_namespace()).with_valid_until(*self.client.valid_until())
    }
}

impl std::fmt::Debug for ClientStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientStack").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

/// A layer that calls `function` with each request and the next service.
pub fn from_fn<F, A>(function: F) -> RequestLayer
where
    F: Fn(Request<Body>, Next) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Response<ResponseBody>, BoxError>> + Send + 'static,
{
    RequestLayer::new(layer_fn(move |inner: Next| {
        let function = function.clone();
        service_fn(move |request| function(request, inner.clone()))
    }))
}

/// Converts the body of a client's response to the type that layers pass on.
pub fn boxed(body: Body) -> ResponseBody {
    body.map_err(BoxError::from).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_request_passes_the_last_layer_first_and_its_response_last() {
        let passed = Arc::new(Mutex::new(Vec::new()));
        let layer = |name: &'static str| {
            let passed = passed.clone();
            from_fn(move |request, next| {
                let passed = passed.clone();
                async move {
                    passed.lock().push(format!("{name} sends"));
                    let response = next.oneshot(request).await;
                    passed.lock().push(format!("{name} receives"));
                    response
                }
            })
        };
        let server =
            service_fn(async |_: Request<Body>| Ok::<_, BoxError>(Response::new(Body::from(b"pods".to_vec()))));
        let stack = ClientStack::new(Client::new(server, "shop")).with([layer("inner")]).with([layer("outer")]);
        let client = stack.client();
        assert_eq!(client.default_namespace(), "shop");
        let response = client.send(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect_bytes().await.unwrap(), "pods");
        assert_eq!(*passed.lock(), ["outer sends", "inner sends", "inner receives", "outer receives"]);
    }

    #[tokio::test]
    async fn a_layer_sees_the_error_that_the_client_inside_reports() {
        let server = service_fn(async |_: Request<Body>| Err::<Response<Body>, BoxError>("no route to host".into()));
        let layer = from_fn(async |request, next: Next| {
            let error = next.oneshot(request).await.expect_err("there is no route");
            assert!(matches!(error.downcast_ref(), Some(kube::Error::Service(_))), "{error:?}");
            Err(error)
        });
        let client = ClientStack::new(Client::new(server, "shop")).with([layer]).client();
        let error = client.send(Request::get("/").body(Body::empty()).unwrap()).await.expect_err("there is no route");
        let kube::Error::Service(error) = error else { panic!("{error:?}") };
        assert_eq!(error.to_string(), "no route to host", "it is not wrapped again");
    }
}
