//! Tests of discovery.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kooper_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::send;

/// The groups as an Accept header has them: the type of the response and its body.
async fn groups(server: &ApiServer, accept: &str) -> (String, Bytes) {
    let request = Request::builder().uri("/apis").header("accept", accept).body(Full::<Bytes>::default());
    let request = request.expect("it is a request");
    let response = server.service().oneshot(request).await.expect("the server always answers");
    let content_type = response.headers()["content-type"].to_str().expect("it is a text").to_owned();
    (content_type, response.into_body().collect().await.expect("the body ends well").to_bytes())
}

#[tokio::test]
async fn all_groups_come_in_the_encoding_that_the_client_prefers() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let form = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let old = ";g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let (json, yaml, protobuf) = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf");
    for (accept, expected) in [
        (format!("{json}{form},{json}"), format!("{json}{form}")),
        (format!("{protobuf}{form},{json}{form}"), format!("{protobuf}{form}")),
        (format!("{json}{form};profile=nopeer,{json}{old},{json}"), format!("{json}{form}")),
        (format!("{yaml}{form}"), format!("{yaml}{form}")),
        (format!("{json}{old},{protobuf}"), protobuf.to_owned()),
        (format!("{json};q=0.5{form},{json}"), json.to_owned()),
        (json.to_owned(), json.to_owned()),
        (protobuf.to_owned(), protobuf.to_owned()),
    ] {
        let (content_type, body) = groups(&server, &accept).await;
        assert_eq!(content_type, expected, "{accept}");
        assert_eq!(body.starts_with(b"k8s\0"), expected.starts_with(protobuf), "{accept}");
    }
}

#[tokio::test]
async fn the_groups_of_definitions_are_in_alphabetical_order() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    for (group, version) in [("b.example", "v1"), ("c.example", "v1"), ("a.example", "v1beta1")] {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({"metadata": {"name": format!("shops.{group}")}, "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]
        }});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(send(&server, Method::POST, path, definition).await.0, StatusCode::CREATED);
    }
    let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (accept, list, name, expected) in [
        // By the names of the versions: v1.b.example, v1.c.example, v1beta1.a.example.
        ("application/json", "groups", "/name", ["b.example", "c.example", "a.example"]),
        (form, "items", "/metadata/name", ["a.example", "b.example", "c.example"]),
    ] {
        let (_, body) = groups(&server, accept).await;
        let found: Value = serde_json::from_slice(&body).expect("it is JSON");
        let names = found[list].as_array().into_iter().flatten().filter_map(|group| group.pointer(name)?.as_str());
        let custom: Vec<_> = names.filter(|name| name.ends_with(".example")).collect();
        assert_eq!(custom, expected, "{accept}");
    }
}
