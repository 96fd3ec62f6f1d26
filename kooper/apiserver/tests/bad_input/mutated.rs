//! Requests of the recorded histories, and patches, with something changed in them.

use std::path::Path;
use std::sync::LazyLock;

use http_body_util::Full;
use kooper_apiserver::ApiServer;
use kooper_apiserver::patch::field_manager::FieldManager;
use kooper_apiserver::patch::json::JsonPatch;
use kooper_apiserver::patch::merge::merge_patch;
use kooper_apiserver::patch::reset::Reset;
use kooper_apiserver::patch::schema::{Schema, Types};
use kooper_apiserver::patch::strategic::strategic_merge;
use kooper_apiserver::patch::versions::OneVersion;
use kooper_apiserver::patch::zero::empty;
use kooper_apiserver::patch::{fields_v1, managed};
use kooper_fuzz::fuzz;
use serde_json::{Value, json};

use super::{DEFINITIONS, JSON, check, is_allowed, is_strategic_mistake, read_bytes, runtime, send};

/// After so many requests the server is a new one, so that what they have stored does not slow them down.
const REQUESTS: usize = 2_000;

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let words = "$patch delete replace merge $retainKeys $setElementOrder/containers $deleteFromPrimitiveList/x f: \
         k:{\"name\":\"a\"} v:\"a\" i:0 . metadata name labels finalizers ownerReferences managedFields \
         fieldsV1 resourceVersion uid generateName spec status data kind apiVersion containers template \
         selector matchLabels replicas x-kubernetes-validations rule openAPIV3Schema properties items type \
         object default pattern self oldSelf has( op add remove move copy test path from value /- ~0 ~1 \
         labelSelector= fieldSelector= limit= continue= resourceVersion= resourceVersionMatch=Exact watch=1 \
         sendInitialEvents=true timeoutSeconds= dryRun=All fieldValidation=Strict force=true fieldManager=a \
         propagationPolicy=Foreground gracePeriodSeconds= %00 % .. /status /scale \
         application/apply-patch+yaml application/yaml application/vnd.kubernetes.protobuf &a *a !!binary | > \
         ---";
    words.split(' ').chain(["- ", ": ", "# "]).collect()
});

/// The requests of the written histories: a line with method and path, headers, and the body.
fn requests() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential/cases");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("there are cases").flatten().map(|file| file.path()).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).expect("it can be read"));
    let mut requests: Vec<Vec<u8>> = Vec::new();
    for text in texts {
        for request in text.split("\n\n") {
            let lines = request.lines().filter(|line| !line.starts_with('#') && !line.starts_with("==="));
            let request = lines.collect::<Vec<_>>().join("\n").replace("$ns", "default").replace("WATCH ", "GET ");
            if !request.is_empty() {
                requests.push(request.into_bytes());
            }
        }
    }
    assert!(requests.len() > 400);
    requests
}

/// The request of an input, if HTTP can carry it.
fn request(input: &[u8]) -> Option<http::Request<Full<bytes::Bytes>>> {
    let (head, mut body) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &[][..]),
    };
    let (method, path) = std::str::from_utf8(head).ok()?.split_once(' ')?;
    let mut request = http::Request::builder().method(method).uri(path);
    let mut has_type = false;
    // Headers have a colon behind a name.
    while let Some(end) = body.iter().position(|byte| *byte == b'\n') {
        let Some((name, value)) = std::str::from_utf8(&body[..end]).ok().and_then(|line| line.split_once(": ")) else {
            break;
        };
        if !name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') || name.is_empty() {
            break;
        }
        has_type |= name.eq_ignore_ascii_case("content-type");
        request = request.header(name, value);
        body = &body[end + 1..];
    }
    if !has_type {
        request = request.header("content-type", JSON);
    }
    request.body(Full::new(bytes::Bytes::copy_from_slice(body))).ok()
}

#[test]
fn mutated_requests_get_an_answer() {
    let runtime = runtime();
    let start = || {
        let server = runtime.block_on(ApiServer::start()).expect("loopback can be listened on");
        let definitions = include_str!("../differential/random/definitions.jsonl");
        for definition in definitions.lines() {
            let post = request(format!("POST {DEFINITIONS}\n{definition}").as_bytes()).expect("it is a request");
            runtime.block_on(send(&server, post));
        }
        server
    };
    let (mut server, mut sent) = (start(), 0);
    fuzz("requests", requests(), &WORDS, |input| {
        let Some(request) = request(input) else { return };
        if sent == REQUESTS {
            (server, sent) = (start(), 0);
        }
        sent += 1;
        let is_head = request.method() == http::Method::HEAD;
        let sent_as = request.headers().get("content-type").and_then(|media| media.to_str().ok());
        let sent_as = sent_as.unwrap_or_default().to_owned();
        runtime.block_on(async {
            let response = send(&server, request).await;
            let media = response.headers().get("content-type").cloned();
            let (status, body) = read_bytes(response).await;
            let text = String::from_utf8_lossy(&body);
            match media.as_ref().and_then(|media| media.to_str().ok()) {
                _ if is_head || is_strategic_mistake(&sent_as, status) => {}
                Some(JSON | "text/plain; charset=utf-8") => check(status, &text),
                // YAML or protobuf: the message is in it.
                _ => assert!(status.is_success() || is_allowed(status, &text), "{status}: {text}"),
            }
        });
    });
}

/// A schema with all the ways in which lists and maps are merged.
fn schema() -> Schema {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let item = json!({"type": "object", "properties": {"name": text, "protocol": text, "port": {"type": "integer"},
        "env": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": text, "value": text}}}}});
    let declared = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer"}, "labels": texts,
        "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": item},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "whole": {"type": "array", "items": text},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}}});
    Schema::custom(&Types::new(|_| None), &declared)
}

#[test]
fn mutated_patches_are_applied_or_refused() {
    const VERSION: &str = "example.com/v1";
    let object = |spec: Value| json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
    let full = object(json!({
        "replicas": 3, "labels": {"a": "b"}, "containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}],
        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}], "set": ["a", "b"], "whole": ["x"],
        "atomic": {"a": "1"}, "free": {"a": [1, {"b": null}]}
    }));
    let other =
        object(json!({"containers": [{"name": "b", "env": []}], "set": ["c"], "ports": [{"port": 80}], "free": null}));
    let strategic = object(json!({
        "containers": [{"name": "b", "$patch": "delete"}, {"name": "a", "env": [{"$patch": "replace"}]}],
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "$deleteFromPrimitiveList/set": ["a"],
        "labels": {"$patch": "replace", "c": "d"}, "atomic": {"$retainKeys": ["a"]}
    }));
    let operations = json!([
        {"op": "add", "path": "/spec/whole/-", "value": 1}, {"op": "move", "from": "/spec/set/0", "path": "/spec/set/1"},
        {"op": "copy", "from": "/spec/free", "path": "/spec/x~1y"}, {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "remove", "path": "/spec/labels/a"}, {"op": "replace", "path": "", "value": {}}
    ]);
    let fields = json!([{
        "manager": "m", "operation": "Apply", "apiVersion": VERSION, "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {".": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}, "f:set": {"v:\"a\"": {}},
            "f:whole": {"i:0": {}}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}}
    }]);
    let texts = [full, other, strategic, operations, fields].map(|value| value.to_string());
    let seeds = texts.iter().flat_map(|one| texts.iter().map(move |other| format!("{one}\n{other}").into_bytes()));
    let schema = schema();
    let versions = OneVersion { api_version: VERSION.to_owned(), schema: schema.clone() };
    let (reset, zero) = (Reset::NOTHING, empty(VERSION, "Thing"));
    let manager = FieldManager {
        api_version: VERSION,
        kind: "Thing",
        subresource: "",
        versions: &versions,
        reset: &reset,
        zero: &zero,
    };
    fuzz("patches", seeds, &WORDS, |input| {
        let text = String::from_utf8_lossy(input);
        let Some((one, other)) = text.split_once('\n') else { return };
        let (Ok(one), Ok(other)) = (serde_json::from_str::<Value>(one), serde_json::from_str::<Value>(other)) else {
            return;
        };
        drop(merge_patch(one.clone(), other.clone()));
        drop(strategic_merge(one.clone(), other.clone(), &schema));
        if let Value::Array(operations) = &other {
            drop(JsonPatch::new(operations.clone(), other.to_string().as_bytes()).apply(&mut one.clone()));
        }
        if let Ok(owners) = managed::decode(&other) {
            drop(managed::encode(&owners));
        }
        if let Ok(set) = fields_v1::decode(&other) {
            assert_eq!(fields_v1::decode(&fields_v1::encode(&set)), Ok(set));
        }
        for force in [false, true] {
            drop(manager.apply(&one, &other, "m", force, "2026-01-01T00:00:00Z"));
        }
        drop(manager.apply(&zero, &other, "m", false, "2026-01-01T00:00:00Z"));
    });
}
