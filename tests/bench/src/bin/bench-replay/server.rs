//! An API server that knows one list.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kooper_bench::Kind;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::recording::Recording;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Part of a list's event before the object.
const ADDED: &[u8] = br#"{"type":"ADDED","object":"#;
/// The version of everything that is listed in JSON.
const VERSION: &str = "1000000";

/// The path of all objects of a kind.
pub(crate) fn collection(kind: Kind) -> &'static str {
    match kind {
        Kind::Pods => "/api/v1/pods",
        Kind::Crs => "/apis/bench.kooper.dev/v1/widgets",
    }
}

/// Starts one on loopback.
pub(crate) async fn start(kind: Kind, recording: Recording, objects: usize) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let replay = Arc::new(Replay { kind, recording, objects });
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let _ = connection.set_nodelay(true);
            let replay = replay.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let response = replay.clone().respond(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service));
        }
    });
    Ok(address)
}

/// A list of some length.
struct Replay {
    kind: Kind,
    recording: Recording,
    objects: usize,
}

impl Replay {
    fn respond<B>(self: Arc<Self>, request: &Request<B>) -> Response<Body> {
        let path = request.uri().path();
        if path != collection(self.kind) {
            return discover(path).map_or_else(|| not_found(path), |body| json_response(StatusCode::OK, &body));
        }
        let query = request.uri().query().unwrap_or_default();
        let query: HashMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let is = |name| query.get(name).is_some_and(|value| matches!(*value, "1" | "true"));
        let accept = request.headers().get("accept").and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if is("watch") {
            return self.watch(accept, is("sendInitialEvents"));
        }
        let number = |name| query.get(name).and_then(|value| value.parse::<usize>().ok()).unwrap_or_default();
        self.page(number("continue"), number("limit"))
    }

    /// A watch, with the list before it or without; nothing changes.
    fn watch(self: Arc<Self>, accept: &str, initial: bool) -> Response<Body> {
        let (encoding, _) = self.recording.accepted(accept);
        let (accept, objects) = (accept.to_owned(), if initial { self.objects } else { 0 });
        let events = stream::iter(0..objects + usize::from(initial)).map(move |at| {
            let (_, events) = self.recording.accepted(&accept);
            if at == objects { events.end() } else { events.event(at) }
        });
        respond(StatusCode::OK, encoding.watch(), stream(events.chain(stream::pending())))
    }

    /// A page of the list in JSON; without a limit it is all of it.
    fn page(self: Arc<Self>, from: usize, limit: usize) -> Response<Body> {
        let until = if limit == 0 { self.objects } else { self.objects.min(from + limit) };
        let mut metadata = json!({ "resourceVersion": VERSION });
        if until < self.objects {
            metadata["continue"] = until.to_string().into();
        }
        let (kind, version) = match self.kind {
            Kind::Pods => ("PodList", "v1"),
            Kind::Crs => ("WidgetList", "bench.kooper.dev/v1"),
        };
        let head = format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
        let items = (from..until).map(move |at| {
            let event = self.recording.json().event(at);
            let object = event.slice(ADDED.len()..event.len() - "}\n".len());
            if at == from { object } else { [&b","[..], &object].concat().into() }
        });
        let parts = [Bytes::from(head)].into_iter().chain(items).chain([Bytes::from_static(b"]}")]);
        respond(StatusCode::OK, "application/json", stream(stream::iter(parts)))
    }
}

/// Returns the discovery documents that a client requests before it lists.
fn discover(path: &str) -> Option<Value> {
    let resources = |version: &str, name: &str, kind: &str| {
        let verbs = ["get", "list", "watch"];
        let resource = json!({ "name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs });
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [resource] })
    };
    let version = json!({ "groupVersion": "bench.kooper.dev/v1", "version": "v1" });
    Some(match path {
        "/api" => json!({ "kind": "APIVersions", "versions": ["v1"] }),
        "/apis" => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [{ "name": "bench.kooper.dev", "versions": [version], "preferredVersion": version }]
        }),
        "/apis/bench.kooper.dev" => json!({
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": "bench.kooper.dev",
            "versions": [version],
            "preferredVersion": version
        }),
        "/api/v1" => resources("v1", "pods", "Pod"),
        "/apis/bench.kooper.dev/v1" => resources("bench.kooper.dev/v1", "widgets", "Widget"),
        _ => return None,
    })
}

fn not_found(path: &str) -> Response<Body> {
    let message = format!("{path} is not recorded");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": message
    });
    json_response(StatusCode::NOT_FOUND, &status)
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    respond(status, "application/json", Full::from(body.to_string()).boxed_unsync())
}

fn respond(status: StatusCode, media: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(media));
    response
}

/// One chunk for each part, as a real server flushes each event.
fn stream(parts: impl stream::Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(parts.map(|part| Ok(Frame::data(part)))).boxed_unsync()
}
