//! A server that a test consists of: a function from a request to its response.

use std::future::ready;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A client of a server that responds with a code and an object. `namespace` is the client's own.
pub fn client(namespace: &str, respond: impl Fn(&Request<Body>) -> (u16, Value) + Send + 'static) -> Client {
    let server = tower::service_fn(move |request: Request<Body>| {
        let (code, object) = respond(&request);
        ready(Response::builder().status(code).body(Body::from(object.to_string().into_bytes())))
    });
    Client::new(server, namespace)
}

/// The response about an object that does not exist.
pub fn missing(name: &str) -> (u16, Value) {
    let (code, mut status) = rejection(404, &format!("\"{name}\" not found"));
    status["reason"] = "NotFound".into();
    status["details"] = json!({"name": name});
    (code, status)
}

/// The response that rejects a request.
pub fn rejection(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
}
