//! Webhooks that both servers call: what each of them does follows from its path.
//!
//! | path | does |
//! |---|---|
//! | `/allow`, `/warn` | allows; the second with two warnings |
//! | `/deny/…` | denies: `plain` with a message, `causes` as an invalid object, `reason`, `silent` |
//! | `/echo` | denies with the request as the message |
//! | `/append/NAME` | adds NAME to the annotation `calls` |
//! | `/patch/…` | answers with a patch that is special |
//! | `/slow`, `/close`, `/garbage`, … | fails |

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::case::Step;
use crate::server::Server;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/";

/// The address of the webhooks, and their certificate authority in PEM.
static SERVED: OnceLock<(SocketAddr, String)> = OnceLock::new();

/// A body with the address and the authority of the webhooks.
pub(crate) fn filled(body: String) -> String {
    if !body.contains("$hooks") && !body.contains("$ca") {
        return body;
    }
    let (address, ca) = SERVED.get_or_init(serve);
    body.replace("$hooks", &address.to_string()).replace("$ca", &STANDARD.encode(ca))
}

/// An answer without them: a recording has others.
pub(crate) fn masked(body: &str) -> String {
    match SERVED.get() {
        Some((address, ca)) => body.replace(&address.to_string(), "$hooks").replace(&STANDARD.encode(ca), "$ca"),
        None => body.to_owned(),
    }
}

/// Waits until a real server calls the webhooks of a configuration as they were written: it learns of all of a kind in
/// their order, so one that is written later is called later.
pub(crate) async fn settle(server: &Server, step: &Step) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let Some(resource) = step.path.strip_prefix(CONFIGURATIONS).and_then(|rest| rest.split(['/', '?']).next()) else {
        return;
    };
    let kind = match resource {
        "mutatingwebhookconfigurations" => "MutatingWebhookConfiguration",
        "validatingwebhookconfigurations" => "ValidatingWebhookConfiguration",
        _ => return,
    };
    let name = format!("settled-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": [{
            "name": "settled.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://$hooks/warn", "caBundle": "$ca"},
            "objectSelector": {"matchLabels": {"settled": name}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    });
    let configuration = filled(configuration.to_string());
    let written = server.send(&Step::post(&format!("{CONFIGURATIONS}{resource}"), configuration)).await;
    assert_eq!(written.status, 201, "{}", written.body);
    let probe = json!({"metadata": {"name": name, "labels": {"settled": name}}});
    let probe = Step::post("/api/v1/namespaces/default/configmaps?dryRun=All", probe.to_string());
    while !server.send(&probe).await.headers.iter().any(|(_, value)| value.contains("be careful")) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let path = format!("{CONFIGURATIONS}{resource}/{name}");
    server.send(&Step { method: "DELETE".into(), path, ..Step::default() }).await;
}

/// Serves on a thread of its own, so that a test may stop its clock.
fn serve() -> (SocketAddr, String) {
    let authority_key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = authority.self_signed(&authority_key).expect("a certificate").pem();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key)).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).expect("they belong together");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (started, start) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            started.send(listener.local_addr().expect("an address")).expect("it is awaited");
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let connection = hyper::server::conn::http1::Builder::new();
                    drop(connection.serve_connection(TokioIo::new(stream), service_fn(answer)).await);
                });
            }
        });
    });
    (start.recv().expect("it serves"), ca)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, &'static str> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(|_| "the body ended")?.to_bytes();
    let review: Value = serde_json::from_slice(&body).map_err(|_| "no JSON")?;
    let request = &review["request"];
    let reviewed = |response: Value| {
        let mut response = response;
        if response.get("uid").is_none() {
            response["uid"] = request["uid"].clone();
        }
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).to_string()
    };
    let denied = |status: Value| reviewed(json!({"allowed": false, "status": status}));
    let patched =
        |patch: &str| reviewed(json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)}));
    let (mut code, mut content_type) = (200, "application/json");
    let parts: Vec<_> = path.split('/').skip(1).collect();
    let body = match parts.as_slice() {
        ["allow"] => reviewed(json!({"allowed": true})),
        ["warn"] => reviewed(json!({"allowed": true, "warnings": ["be careful", "and \"kind\""]})),
        ["deny", "plain"] => denied(json!({"message": "no"})),
        ["deny", "warning"] => reviewed(json!({"allowed": false, "warnings": ["told you"]})),
        ["deny", "reason"] => denied(json!({"reason": "Because", "code": 200})),
        ["deny", "silent"] => reviewed(json!({"allowed": false})),
        ["deny", "causes"] => denied(json!({
            "status": "Failure", "message": "it is invalid", "reason": "Invalid", "code": 422,
            "details": {"name": "a", "kind": "Thing", "causes": [
                {"reason": "FieldValueInvalid", "message": "must be 1", "field": "data.a"},
                {"reason": "FieldValueInvalid", "message": "must be 2", "field": "data.b"},
            ]},
        })),
        ["echo"] => denied(json!({"message": echoed(request).to_string()})),
        ["append", name] => {
            let calls = request["object"]["metadata"]["annotations"]["calls"].as_str().unwrap_or_default();
            let value = json!(format!("{calls}{name}"));
            let has_any = request["object"]["metadata"]["annotations"].is_object();
            patched(&if has_any {
                json!([{"op": "add", "path": "/metadata/annotations/calls", "value": value}]).to_string()
            } else {
                json!([{"op": "add", "path": "/metadata/annotations", "value": {"calls": value}}]).to_string()
            })
        }
        ["patch", "label"] => patched(r#"[{"op": "add", "path": "/metadata/labels", "value": {"labelled": "yes"}}]"#),
        ["patch", "unknown"] => patched(r#"[{"op": "add", "path": "/unknown", "value": 1}]"#),
        ["patch", "data"] => patched(r#"[{"op": "add", "path": "/data", "value": {"filled": "yes"}}]"#),
        ["patch", "same"] => patched(r#"[{"op": "test", "path": "/kind", "value": "ConfigMap"}]"#),
        ["patch", "type"] => patched(r#"[{"op": "add", "path": "/data", "value": {"number": 1}}]"#),
        ["patch", "uid"] => patched(r#"[{"op": "add", "path": "/metadata/uid", "value": "mine"}]"#),
        ["patch", "misfit"] => patched(r#"[{"op": "remove", "path": "/none/there"}]"#),
        ["patch", "replace"] => patched(
            r#"[{"op": "test", "path": "/kind", "value": "ConfigMap"}, {"op": "replace", "path": "/none/there", "value": 1}]"#,
        ),
        ["patch", "test"] => patched(r#"[{"op": "test", "path": "/kind", "value": "Secret"}]"#),
        ["patch", "add"] => patched(r#"[{"op": "add", "path": "/none/there", "value": 1}]"#),
        ["patch", "empty"] => patched("[]"),
        ["patch", "garbage"] => patched("{"),
        ["patch", "untyped"] => reviewed(json!({"allowed": true, "patch": STANDARD.encode("[]")})),
        ["patch", "none"] => reviewed(json!({"allowed": true, "patchType": "JSONPatch"})),
        ["uid"] => reviewed(json!({"allowed": true, "uid": "another"})),
        ["absent"] => json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}).to_string(),
        ["other"] => json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}).to_string(),
        ["untyped"] => "{}".to_owned(),
        ["list"] => "[]".to_owned(),
        ["brace"] => "{".to_owned(),
        ["garbage"] => "garbage".to_owned(),
        ["empty"] => String::new(),
        ["status"] => {
            code = 500;
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "it broke", "code": 500}).to_string()
        }
        ["code", number] => {
            (code, content_type) = (number.parse().map_err(|_| "no code")?, "text/plain");
            "some \"text\"\n".to_owned()
        }
        ["slow"] => {
            tokio::time::sleep(Duration::from_secs(2)).await;
            reviewed(json!({"allowed": true}))
        }
        _ => return Err("the connection ends"),
    };
    let response = Response::builder().status(code).header("content-type", content_type);
    Ok(response.body(Full::new(body.into())).expect("a response"))
}

/// A request without what differs each time, and without who owns which fields.
fn echoed(request: &Value) -> Value {
    let mut request = request.clone();
    request["uid"] = json!("UID");
    let mut generated = false;
    request["userInfo"] = json!(request["userInfo"].is_object());
    for object in ["object", "oldObject"] {
        let Some(metadata) = request[object].get_mut("metadata").and_then(Value::as_object_mut) else { continue };
        for (key, value) in metadata.iter_mut() {
            if matches!(key.as_str(), "uid" | "creationTimestamp" | "resourceVersion" | "deletionTimestamp") {
                *value = json!("SET");
            }
        }
        metadata.remove("managedFields");
        if metadata.contains_key("generateName") && metadata.contains_key("name") {
            metadata["name"] = json!("GENERATED");
            generated = true;
        }
    }
    if generated && request.get("name").is_some() {
        request["name"] = json!("GENERATED");
    }
    request
}
