//! Tests of the kinds that definitions add.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kooper_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::send;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Tests that a definition is served once its names are free.
#[tokio::test]
async fn a_kind_is_served_when_its_names_are_free() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let definition = |plural: &str| {
        json!({"metadata": {"name": format!("{plural}.names.example")}, "spec": {
            "group": "names.example", "scope": "Namespaced", "names": {"plural": plural, "singular": plural, "kind": "Same"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
        }})
    };
    for plural in ["firsts", "seconds"] {
        let (status, _) = send(&server, Method::POST, DEFINITIONS, definition(plural)).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let served = async |plural: &str| {
        let path = format!("/apis/names.example/v1/namespaces/default/{plural}");
        send(&server, Method::GET, &path, Value::Null).await.0
    };
    assert_eq!((served("firsts").await, served("seconds").await), (StatusCode::OK, StatusCode::NOT_FOUND));
    let (_, waiting) = send(&server, Method::GET, &format!("{DEFINITIONS}/seconds.names.example"), Value::Null).await;
    assert_eq!(waiting["status"]["conditions"][0]["message"], "\"SameList\" is already in use");
    assert_eq!(waiting["status"]["conditions"][1]["status"], "False");

    let first = format!("{DEFINITIONS}/firsts.names.example");
    let (_, mut object) = send(&server, Method::GET, &first, Value::Null).await;
    let since = "2026-01-01T00:00:00Z";
    let own = json!({"type": "Own", "status": "True", "lastTransitionTime": since, "reason": "a", "message": "b"});
    object["status"]["conditions"].as_array_mut().expect("it has conditions").push(own.clone());
    send(&server, Method::PUT, &format!("{first}/status"), object).await;
    let (_, object) = send(&server, Method::GET, &first, Value::Null).await;
    assert_eq!(object["status"]["conditions"][2], own, "a condition of a client stays");

    send(&server, Method::DELETE, &first, Value::Null).await;
    assert_eq!((served("firsts").await, served("seconds").await), (StatusCode::NOT_FOUND, StatusCode::OK));
}

#[tokio::test]
async fn a_watch_shows_the_deletion_of_the_objects_of_a_definition() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let definition = json!({"metadata": {"name": "shops.watched.example"}, "spec": {
        "group": "watched.example", "scope": "Namespaced", "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    }});
    send(&server, Method::POST, DEFINITIONS, definition).await;
    let shops = "/apis/watched.example/v1/namespaces/default/shops";
    let shop = json!({"apiVersion": "watched.example/v1", "kind": "Shop", "metadata": {"name": "a"}});
    let (_, shop) = send(&server, Method::POST, shops, shop).await;
    let version = shop["metadata"]["resourceVersion"].as_str().expect("it has a version");
    let watch = format!("{shops}?watch=1&resourceVersion={version}");
    let watch = Request::get(watch).body(Full::<Bytes>::default()).expect("it is a request");
    let watch = server.service().oneshot(watch).await.expect("the server always answers");
    send(&server, Method::DELETE, &format!("{DEFINITIONS}/shops.watched.example"), Value::Null).await;
    let lines = watch.into_body().collect().await.expect("the body ends well").to_bytes();
    let event: Value = serde_json::from_slice(&lines).expect("there is one event");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("a")));
}

#[tokio::test]
async fn what_an_object_owns_is_deleted_with_its_definition() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    for finalizers in [json!([]), json!(["example.com/held"])] {
        let definition = json!({"metadata": {"name": "shops.owners.example"}, "spec": {
            "group": "owners.example", "scope": "Namespaced", "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
        }});
        send(&server, Method::POST, DEFINITIONS, definition).await;
        let shops = "/apis/owners.example/v1/namespaces/default/shops";
        let metadata = json!({"name": "a", "finalizers": finalizers});
        let shop = json!({"apiVersion": "owners.example/v1", "kind": "Shop", "metadata": metadata});
        let (_, mut shop) = send(&server, Method::POST, shops, shop).await;
        let owner = json!({
            "apiVersion": "owners.example/v1", "kind": "Shop", "name": "a", "uid": shop["metadata"]["uid"]
        });
        let owned = json!({"metadata": {"name": "owned", "ownerReferences": [owner]}});
        let (status, _) = send(&server, Method::POST, super::MAPS, owned).await;
        assert_eq!(status, StatusCode::CREATED);

        send(&server, Method::DELETE, &format!("{DEFINITIONS}/shops.owners.example"), Value::Null).await;
        let path = format!("{shops}/a");
        if finalizers != json!([]) {
            (_, shop) = send(&server, Method::GET, &path, Value::Null).await;
            shop["metadata"]["finalizers"] = json!([]);
            send(&server, Method::PUT, &path, shop).await;
        }
        assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, StatusCode::NOT_FOUND);
        assert_eq!(super::names(&server).await, [""; 0], "{finalizers}");
    }
}

#[tokio::test]
async fn an_owner_takes_along_what_was_written_in_a_version_that_is_not_served_any_more() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let definition = json!({"metadata": {"name": "shops.served.example"}, "spec": {
        "group": "served.example", "scope": "Namespaced", "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
        "versions": [version("v1", false), version("v2", true)]
    }});
    send(&server, Method::POST, DEFINITIONS, definition).await;
    let (_, owner) = send(&server, Method::POST, super::MAPS, json!({"metadata": {"name": "owner"}})).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let metadata = json!({"name": "a", "ownerReferences": [owner]});
    let shop = json!({"apiVersion": "served.example/v1", "kind": "Shop", "metadata": metadata});
    let (status, _) = send(&server, Method::POST, "/apis/served.example/v1/namespaces/default/shops", shop).await;
    assert_eq!(status, StatusCode::CREATED);

    let path = format!("{DEFINITIONS}/shops.served.example");
    let (_, mut definition) = send(&server, Method::GET, &path, Value::Null).await;
    definition["spec"]["versions"][0]["served"] = json!(false);
    assert_eq!(send(&server, Method::PUT, &path, definition).await.0, StatusCode::OK);
    let shop = "/apis/served.example/v2/namespaces/default/shops/a";
    assert_eq!(send(&server, Method::GET, shop, Value::Null).await.0, StatusCode::OK);
    send(&server, Method::DELETE, &format!("{}/owner", super::MAPS), Value::Null).await;
    assert_eq!(send(&server, Method::GET, shop, Value::Null).await.0, StatusCode::NOT_FOUND);
}
