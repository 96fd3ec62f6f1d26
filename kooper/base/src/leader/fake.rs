//! An API server that serves only Leases, for tests, with the checks of the real one.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::sleep;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Pass,
    /// It has no effect, and the response has this code.
    Fail(u16),
    /// An admission webhook rejects it with this code.
    Denied(u16),
    /// It is processed, but the response has this code.
    DoneBut(u16),
    /// It has no effect, and there is no response.
    Hang,
    /// It is processed, but there is no response.
    DoneAndHang,
    /// It is processed after this time, unless the client has gone.
    Slow(Duration),
    /// `b` acquires the Lease just before the request is processed.
    Overtaken,
}

type Decide = Box<dyn FnMut(&Method, bool) -> RequestOutcome + Send>;
type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Clone)]
pub(super) struct FakeServer {
    state: Arc<Mutex<FakeState>>,
}

struct FakeState {
    leases: BTreeMap<String, Value>,
    version: u64,
    decide: Decide,
    creates_by_put: bool,
    events: broadcast::Sender<Value>,
    /// The method of each request, and whether it is a watch.
    requests: Vec<(Method, bool)>,
}

impl FakeServer {
    pub(super) fn new() -> Self {
        let state = FakeState {
            leases: BTreeMap::new(),
            version: 0,
            decide: Box::new(|_, _| RequestOutcome::Pass),
            creates_by_put: true,
            events: broadcast::Sender::new(64),
            requests: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().serve(request)), "default")
    }

    /// Sets the function that decides each request; the flag is true for watches.
    pub(super) fn decide(&self, decide: impl FnMut(&Method, bool) -> RequestOutcome + Send + 'static) {
        self.state.lock().decide = Box::new(decide);
    }

    pub(super) fn creates_by_post_only(&self) {
        self.state.lock().creates_by_put = false;
    }

    pub(super) fn get(&self, name: &str) -> Value {
        self.state.lock().leases.get(name).cloned().unwrap_or_default()
    }

    /// Another client changes the Lease.
    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state.lock();
        let empty = || json!({"metadata": {"name": name, "namespace": "shops"}, "spec": {}});
        let mut lease = state.leases.get(name).cloned().unwrap_or_else(empty);
        change(&mut lease);
        state.store(name, lease);
    }

    /// Another client deletes the Lease.
    pub(super) fn delete(&self, name: &str) {
        let mut state = self.state.lock();
        let lease = state.leases.remove(name).unwrap();
        drop(state.events.send(json!({"type": "DELETED", "object": lease})));
    }

    pub(super) fn count(&self, method: &Method, watch: bool) -> usize {
        self.state.lock().requests.iter().filter(|request| **request == (method.clone(), watch)).count()
    }

    async fn serve(self, request: Request<Body>) -> Result<HttpResponse, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let query = parts.uri.query().unwrap_or_default();
        let watch = query.contains("watch=true");
        let name = parts.uri.path().rsplit_once("/leases").unwrap().1.trim_start_matches('/').to_owned();
        let outcome = {
            let mut state = self.state.lock();
            state.requests.push((parts.method.clone(), watch));
            (state.decide)(&parts.method, watch)
        };
        match outcome {
            RequestOutcome::Fail(403) => {
                return Ok(refusal(403, "leases is forbidden: User \"shop\" cannot use it", ""));
            }
            RequestOutcome::Fail(code) => return Ok(refusal(code, "this request fails", "")),
            RequestOutcome::Denied(code) => {
                return Ok(refusal(code, "admission webhook \"a.io\" denied the request: frozen", ""));
            }
            RequestOutcome::Hang => return std::future::pending().await,
            RequestOutcome::Slow(time) => sleep(time).await,
            RequestOutcome::Overtaken => self.change(&name, |lease| lease["spec"]["holderIdentity"] = json!("b")),
            RequestOutcome::Pass | RequestOutcome::DoneBut(_) | RequestOutcome::DoneAndHang => {}
        }
        if watch {
            let name = query.split("metadata.name%3D").nth(1).unwrap().split('&').next().unwrap().to_owned();
            return Ok(self.watch(&name));
        }
        let answer = self.state.lock().answer(&parts.method, &name, &body);
        match outcome {
            RequestOutcome::DoneBut(code) => Ok(refusal(code, "this request was processed", "")),
            RequestOutcome::DoneAndHang => std::future::pending().await,
            _ => Ok(answer),
        }
    }

    fn watch(&self, name: &str) -> HttpResponse {
        let state = self.state.lock();
        let first = state.leases.get(name).map(|lease| json!({"type": "ADDED", "object": lease}));
        let name = name.to_owned();
        let rest = futures_util::stream::unfold(state.events.subscribe(), |mut events| async move {
            events.recv().await.ok().map(|event| (event, events))
        });
        let events = futures_util::stream::iter(first)
            .chain(rest)
            .filter(move |event| std::future::ready(event["object"]["metadata"]["name"] == *name))
            .map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))));
        Response::new(BodyExt::boxed_unsync(StreamBody::new(events)))
    }
}

impl FakeState {
    fn answer(&mut self, method: &Method, name: &str, body: &[u8]) -> HttpResponse {
        let stored = self.leases.get(name).cloned();
        if method == Method::GET {
            let missing = json!({"kind": "Status", "message": "not found", "code": 404, "details": {"name": name}});
            return stored
                .map_or_else(|| answer(StatusCode::NOT_FOUND, &missing), |lease| answer(StatusCode::OK, &lease));
        }
        let new: Value = serde_json::from_slice(body).unwrap();
        let name = new["metadata"]["name"].as_str().unwrap().to_owned();
        let version = new["metadata"]["resourceVersion"].as_str();
        if new["spec"]["leaseDurationSeconds"].as_i64().unwrap() < 1 {
            return refusal(422, "must be greater than 0", "spec.leaseDurationSeconds");
        }
        let time = new["spec"]["renewTime"].as_str().unwrap();
        assert!(time.len() == "2026-01-01T00:00:00.000000Z".len(), "{time} has microseconds");
        match (method.as_str(), stored) {
            ("PUT", None) if version.is_some() => refusal(409, "the object was deleted", ""),
            ("PUT", None) if !self.creates_by_put => refusal(404, "not found", ""),
            ("PUT", Some(_)) if version.is_none() => refusal(422, "must be specified", "metadata.resourceVersion"),
            ("PUT", Some(stored)) if stored["metadata"]["resourceVersion"].as_str() != version => {
                refusal(409, "the object has been modified", "")
            }
            ("POST", Some(_)) => refusal(409, "already exists", ""),
            _ => answer(StatusCode::OK, &self.store(&name, new)),
        }
    }

    fn store(&mut self, name: &str, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("u-1");
        let kind = if self.leases.insert(name.to_owned(), lease.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        // It fails if there is no watch.
        drop(self.events.send(json!({"type": kind, "object": lease})));
        lease
    }
}

fn answer(code: StatusCode, body: &Value) -> HttpResponse {
    let body = Full::new(Bytes::from(body.to_string()));
    Response::builder().status(code).body(BodyExt::boxed_unsync(body)).unwrap()
}

fn refusal(code: u16, message: &str, field: &str) -> HttpResponse {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code,
        "details": { "causes": [{ "field": field }] },
    });
    answer(StatusCode::from_u16(code).unwrap(), &status)
}
