//! Tests of the server's controllers with a client that needs no socket.

#[path = "client/definitions.rs"]
mod definitions;
#[path = "client/discovery.rs"]
mod discovery;
#[path = "client/services.rs"]
mod services;
#[path = "client/users.rs"]
mod users;

use std::pin::pin;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kooper_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Sends a request and returns the status and the body.
async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).body(Full::new(body)).expect("it is a request");
    let response = server.service().oneshot(request).await.expect("the server always answers");
    let status = response.status();
    let body = response.into_body().collect().await.expect("the body ends well").to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn owner_and_dependent(server: &ApiServer) {
    let (status, owner) = send(server, Method::POST, MAPS, json!({"metadata": {"name": "owner"}})).await;
    assert_eq!(status, StatusCode::CREATED);
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true
    });
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": [reference]}});
    assert_eq!(send(server, Method::POST, MAPS, dependent).await.0, StatusCode::CREATED);
}

/// The ConfigMaps of the test, without the one that each namespace has.
async fn names(server: &ApiServer) -> Vec<String> {
    let (_, list) = send(server, Method::GET, MAPS, Value::Null).await;
    let items = list["items"].as_array().expect("it is a list").iter();
    let names = items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    names.filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test]
async fn dependents_follow_their_owner_or_are_orphaned() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    for (policy, left) in [("Background", vec![]), ("Foreground", vec![]), ("Orphan", vec!["dependent"])] {
        owner_and_dependent(&server).await;
        let path = format!("{MAPS}/owner?propagationPolicy={policy}");
        assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, StatusCode::OK);
        assert_eq!(names(&server).await, left, "{policy}");
    }
    let (_, orphan) = send(&server, Method::GET, &format!("{MAPS}/dependent"), Value::Null).await;
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn an_owner_that_is_named_twice_counts_once() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    owner_and_dependent(&server).await;
    let dependent = format!("{MAPS}/dependent");
    let (_, mut object) = send(&server, Method::GET, &dependent, Value::Null).await;
    let owners = object["metadata"]["ownerReferences"].clone();
    object["metadata"]["ownerReferences"] = json!([owners[0], owners[0]]);
    let other = json!({"metadata": {"name": "other", "ownerReferences": [owners[0], owners[0]]}});
    for (method, path, object) in [(Method::PUT, &*dependent, object), (Method::POST, MAPS, other)] {
        let (_, written) = send(&server, method, path, object).await;
        assert_eq!(written["metadata"]["ownerReferences"], owners);
    }
}

#[tokio::test]
async fn an_object_whose_owners_are_absent_is_collected() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "none"});
    let (status, _) =
        send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a", "ownerReferences": [reference]}})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert!(names(&server).await.is_empty());
}

#[tokio::test]
async fn an_event_outlives_its_owner() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    owner_and_dependent(&server).await;
    let (_, dependent) = send(&server, Method::GET, &format!("{MAPS}/dependent"), Value::Null).await;
    let owners = &dependent["metadata"]["ownerReferences"];
    let about = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "namespace": "default"});
    let event =
        json!({"metadata": {"name": "a", "ownerReferences": owners}, "involvedObject": about, "reason": "Seen"});
    let events = "/api/v1/namespaces/default/events";
    assert_eq!(send(&server, Method::POST, events, event).await.0, StatusCode::CREATED);
    send(&server, Method::DELETE, &format!("{MAPS}/owner"), Value::Null).await;
    assert!(names(&server).await.is_empty());
    assert_eq!(send(&server, Method::GET, &format!("{events}/a"), Value::Null).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_namespace_goes_when_its_last_finalizer_does() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let spec = json!({"finalizers": ["example.com/held"]});
    let (_, namespace) =
        send(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/held", "kubernetes"]));
    let wrong = json!({"metadata": {"name": "b"}, "spec": {"finalizers": ["held"]}});
    let (status, refusal) = send(&server, Method::POST, "/api/v1/namespaces", wrong).await;
    assert_eq!(
        (status, &refusal["details"]["causes"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("spec.finalizers"))
    );
    let maps = "/api/v1/namespaces/a/configmaps";
    send(&server, Method::POST, maps, json!({"metadata": {"name": "plain"}})).await;
    send(&server, Method::POST, maps, json!({"metadata": {"name": "held", "finalizers": ["a.example/b"]}})).await;
    let (status, namespace) = send(&server, Method::DELETE, "/api/v1/namespaces/a", Value::Null).await;
    assert_eq!((status, &namespace["status"]["phase"]), (StatusCode::OK, &json!("Terminating")));
    assert_eq!(send(&server, Method::GET, &format!("{maps}/plain"), Value::Null).await.0, StatusCode::NOT_FOUND);
    let (status, refusal) = send(&server, Method::POST, maps, json!({"metadata": {"name": "late"}})).await;
    assert_eq!(
        (status, &refusal["details"]["causes"][0]["reason"]),
        (StatusCode::FORBIDDEN, &json!("NamespaceTerminating"))
    );
    let (status, _) = send(&server, Method::PUT, &format!("{maps}/held"), json!({"metadata": {"name": "held"}})).await;
    assert_eq!(status, StatusCode::OK);
    let (_, mut left) = send(&server, Method::GET, "/api/v1/namespaces/a", Value::Null).await;
    assert_eq!(left["spec"], spec);
    left["spec"] = json!({});
    send(&server, Method::PUT, "/api/v1/namespaces/a/finalize", left).await;
    let (status, _) = send(&server, Method::GET, "/api/v1/namespaces/a", Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_namespace_that_must_not_be_deleted_is_not_in_a_dry_run_either() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    for query in ["", "?dryRun=All"] {
        let path = format!("/api/v1/namespaces/default{query}");
        let (status, refusal) = send(&server, Method::DELETE, &path, Value::Null).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert_eq!(refusal["message"], "namespaces \"default\" is forbidden: this namespace may not be deleted");
    }
    let path = "/api/v1/namespaces/kube-node-lease?dryRun=All";
    let (status, _) = send(&server, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::OK, "the real server permits it, too");
}

/// The real server has the finalizer until its garbage collector has seen the deletion, so it is not compared.
#[tokio::test]
async fn a_pod_keeps_its_grace_period_in_the_foreground() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"nodeName": "node", "containers": [{"name": "main", "image": "web:1"}]});
    let pod = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_eq!(send(&server, Method::POST, pods, pod).await.0, StatusCode::CREATED);
    let pod = format!("{pods}/a");
    send(&server, Method::DELETE, &format!("{pod}?propagationPolicy=Foreground"), Value::Null).await;
    let (_, left) = send(&server, Method::GET, &pod, Value::Null).await;
    assert_eq!(left["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(left["metadata"].get("finalizers"), None);
    send(&server, Method::DELETE, &format!("{pod}?gracePeriodSeconds=0"), Value::Null).await;
    assert_eq!(send(&server, Method::GET, &pod, Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn bindings_of_policies_are_refused() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let group = "/apis/admissionregistration.k8s.io/v1";
    for kind in ["validating", "mutating"] {
        let binding = json!({"metadata": {"name": "a"}, "spec": {"policyName": "a", "validationActions": ["Deny"]}});
        let path = format!("{group}/{kind}admissionpolicybindings");
        assert_eq!(send(&server, Method::POST, &path, binding.clone()).await.0, StatusCode::NOT_IMPLEMENTED, "{kind}");
        let (status, _) = send(&server, Method::PUT, &format!("{path}/a"), binding).await;
        assert_eq!(status, StatusCode::NOT_IMPLEMENTED, "{kind}");
        let (status, list) = send(&server, Method::GET, &path, Value::Null).await;
        assert_eq!((status, &list["items"]), (StatusCode::OK, &json!([])), "{kind}");
    }
}

#[tokio::test]
async fn the_rows_of_a_table_have_what_the_client_sorts_by() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a"}, "data": {"size": "1"}})).await;
    for (query, kind, size) in [
        ("", json!("PartialObjectMetadata"), Value::Null),
        ("&includeObject=Object", json!("ConfigMap"), json!("1")),
        ("&includeObject=None", Value::Null, Value::Null),
    ] {
        let request = Request::get(format!("{MAPS}?fieldSelector=metadata.name%3Da{query}"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Full::<Bytes>::default())
            .expect("it is a request");
        let response = server.service().oneshot(request).await.expect("the server always answers");
        let body = response.into_body().collect().await.expect("the body ends well").to_bytes();
        let table: Value = serde_json::from_slice(&body).expect("it is JSON");
        let object = &table["rows"][0]["object"];
        assert_eq!((&object["kind"], &object["data"]["size"]), (&kind, &size), "{query}");
    }
}

#[tokio::test]
async fn a_watch_from_before_a_compaction_is_gone() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let (_, first) = send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a"}})).await;
    send(&server, Method::POST, MAPS, json!({"metadata": {"name": "b"}})).await;
    server.compact();
    let version = first["metadata"]["resourceVersion"].as_str().expect("it has a version");
    let (status, event) =
        send(&server, Method::GET, &format!("{MAPS}?watch=1&resourceVersion={version}"), Value::Null).await;
    assert_eq!((status, &event["type"], &event["object"]["code"]), (StatusCode::OK, &json!("ERROR"), &json!(410)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_a_bookmark_unless_it_is_of_events() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let (_, list) = send(&server, Method::GET, MAPS, Value::Null).await;
    let version = list["metadata"]["resourceVersion"].as_str().expect("it has a version");
    let query = format!("watch=1&allowWatchBookmarks=1&timeoutSeconds=10&resourceVersion={version}");
    let core = "/api/v1/namespaces/default/events";
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (path, event) in [(MAPS, json!("BOOKMARK")), (core, Value::Null), (newer, Value::Null)] {
        let (status, line) = send(&server, Method::GET, &format!("{path}?{query}"), Value::Null).await;
        assert_eq!((status, &line["type"]), (StatusCode::OK, &event), "{path}");
    }
}

#[tokio::test]
async fn an_open_watch_that_has_lost_nothing_survives_a_compaction() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::default_namespaced(server.client());
    let (_, first) = send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a"}})).await;
    let version = first["metadata"]["resourceVersion"].as_str().expect("it has a version");
    let mut events = pin!(maps.watch(&kube::api::WatchParams::default(), version).await.expect("it is answered"));
    // The version goes on without a change that concerns the watch.
    send(&server, Method::POST, "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "other"}})).await;
    server.compact();
    send(&server, Method::POST, MAPS, json!({"metadata": {"name": "b"}})).await;
    let event = events.next().await.expect("it continues");
    let is_added =
        matches!(&event, Ok(kube::core::WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("b"));
    assert!(is_added, "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn history_is_compacted_every_five_minutes() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let (_, first) = send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a"}})).await;
    send(&server, Method::POST, MAPS, json!({"metadata": {"name": "b"}})).await;
    let version = first["metadata"]["resourceVersion"].as_str().expect("it has a version");
    let (_, page) = send(&server, Method::GET, &format!("{MAPS}?limit=1"), Value::Null).await;
    let token = page["metadata"]["continue"].as_str().expect("there is another page");
    // The current version is never compacted.
    send(&server, Method::POST, MAPS, json!({"metadata": {"name": "c"}})).await;
    let watch = |path: &str| format!("{path}?watch=1&timeoutSeconds=1&resourceVersion={version}");
    for compacted in [false, true] {
        let (status, page) = send(&server, Method::GET, &format!("{MAPS}?limit=1&continue={token}"), Value::Null).await;
        assert_eq!(status, if compacted { StatusCode::GONE } else { StatusCode::OK }, "{page}");
        let code = send(&server, Method::GET, &watch(EVENTS), Value::Null).await.1["object"]["code"].clone();
        assert_eq!(code, if compacted { json!(410) } else { Value::Null }, "Events have no cache of history");
        // The cache of other kinds has its own history.
        let path = watch(MAPS) + "&fieldSelector=metadata.name=b";
        let added = send(&server, Method::GET, &path, Value::Null).await.1;
        assert_eq!(added["type"], "ADDED");
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    }
}

#[tokio::test]
async fn a_list_whose_state_is_compacted_can_continue_in_the_newest_one() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    for name in ["a", "b"] {
        send(&server, Method::POST, MAPS, json!({"metadata": {"name": name}})).await;
    }
    let (_, first) = send(&server, Method::GET, &format!("{MAPS}?limit=1"), Value::Null).await;
    send(&server, Method::POST, MAPS, json!({"metadata": {"name": "c"}})).await;
    server.compact();
    let after = async |page: &Value| {
        let token = page["metadata"]["continue"].as_str().expect("there is another page");
        send(&server, Method::GET, &format!("{MAPS}?limit=1&continue={token}"), Value::Null).await
    };
    let (status, refusal) = after(&first).await;
    assert_eq!((status, &refusal["reason"]), (StatusCode::GONE, &json!("Expired")));
    let message = refusal["message"].as_str().expect("it has a message");
    assert!(message.contains("or use the continue token in this response"), "{message}");
    let (status, second) = after(&refusal).await;
    assert_eq!((status, &second["items"][0]["metadata"]["name"]), (StatusCode::OK, &json!("b")));
    let (status, third) = after(&second).await;
    assert_eq!((status, &third["items"][0]["metadata"]["name"]), (StatusCode::OK, &json!("c")));
    assert_eq!(third["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_namespace_has_its_service_account_again_when_it_is_deleted() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    send(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
    let path = "/api/v1/namespaces/a/serviceaccounts/default";
    let (_, first) = send(&server, Method::GET, path, Value::Null).await;
    assert_eq!(send(&server, Method::DELETE, path, Value::Null).await.0, StatusCode::OK);
    let (status, second) = send(&server, Method::GET, path, Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(send(&server, Method::DELETE, "/api/v1/namespaces/a", Value::Null).await.0, StatusCode::OK);
    assert_eq!(send(&server, Method::GET, "/api/v1/namespaces/a", Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_claim_that_a_pod_uses_stays_until_the_pod_is_deleted() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let resources = json!({"requests": {"storage": "1Gi"}});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}});
    assert_eq!(send(&server, Method::POST, claims, claim).await.0, StatusCode::CREATED);
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": [volume]});
    let pods = "/api/v1/namespaces/default/pods";
    let (status, mut pod) = send(&server, Method::POST, pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert_eq!(status, StatusCode::CREATED);
    pod["status"]["phase"] = json!("Succeeded");
    assert_eq!(send(&server, Method::PUT, &format!("{pods}/p/status"), pod).await.0, StatusCode::OK);
    let claim = format!("{claims}/c");
    send(&server, Method::DELETE, &claim, Value::Null).await;
    let (status, held) = send(&server, Method::GET, &claim, Value::Null).await;
    assert_eq!((status, held["metadata"]["deletionTimestamp"].is_string()), (StatusCode::OK, true));
    send(&server, Method::DELETE, &format!("{pods}/p"), Value::Null).await;
    assert_eq!(send(&server, Method::GET, &claim, Value::Null).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_pod_acts_as_a_service_account_and_stays_as_it_was_admitted() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let (status, pod) = send(&server, Method::POST, pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert_eq!((status, &pod["spec"]["serviceAccountName"]), (StatusCode::CREATED, &json!("default")));
    let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(pod["spec"]["volumes"][0]["name"], mount["name"]);
    let mut labelled = pod.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let (status, changed) = send(&server, Method::PUT, &format!("{pods}/p"), labelled).await;
    assert_eq!((status, &changed["spec"]), (StatusCode::OK, &pod["spec"]));
}

#[tokio::test]
async fn a_deprecated_version_is_served_with_a_warning() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"metadata": {"name": "olds.old.example"}, "spec": {
        "group": "old.example", "scope": "Cluster", "names": {"plural": "olds", "kind": "Old"},
        "versions": [{"name": "v1", "served": true, "storage": true, "deprecated": true, "schema": schema}]
    }});
    send(&server, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let request = Request::get("/apis/old.example/v1/olds").body(Full::<Bytes>::default()).expect("it is a request");
    let response = server.service().oneshot(request).await.expect("the server always answers");
    assert_eq!(response.headers()["warning"], "299 - \"old.example/v1 Old is deprecated\"");
}

/// The real server reports what concerns the manager before the other options.
#[tokio::test]
async fn a_field_manager_that_cannot_be_printed_is_refused() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let path = format!("{MAPS}?fieldManager=my%0Aoperator&dryRun=Some");
    let (_, refusal) = send(&server, Method::POST, &path, json!({"metadata": {"name": "a"}})).await;
    let causes = &refusal["details"]["causes"];
    let why = "Invalid value: \"my\\noperator\": invalid character U+000A (at position 2)";
    assert_eq!((&causes[0]["message"], &causes[1]["field"]), (&json!(why), &json!("dryRun")));
}

#[tokio::test]
async fn hundreds_of_servers_live_side_by_side() {
    let begun = Instant::now();
    let mut servers = Vec::new();
    for _ in 0..200 {
        servers.push(ApiServer::start().await.expect("loopback can be listened on"));
    }
    println!("{:?} each", begun.elapsed() / 200);
    send(&servers[0], Method::POST, MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(names(&servers[0]).await, ["a"]);
    assert!(names(&servers[199]).await.is_empty());
}

#[tokio::test]
async fn each_namespace_has_the_certificate_authority() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    send(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "new"}})).await;
    for namespace in ["default", "kube-system", "new"] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        let (status, map) = send(&server, Method::GET, &path, Value::Null).await;
        let expected = json!(server.credentials().certificate_pem());
        assert_eq!((status, &map["data"]["ca.crt"]), (StatusCode::OK, &expected), "{namespace}");
        let patch = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "other"}});
        send(&server, Method::PUT, &path, patch).await;
        let (_, map) = send(&server, Method::GET, &path, Value::Null).await;
        assert_eq!(map["data"]["ca.crt"], expected, "it is restored");
        send(&server, Method::DELETE, &path, Value::Null).await;
        assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, StatusCode::OK, "it is created again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pod_can_be_created_right_after_its_namespace() {
    let server = std::sync::Arc::new(ApiServer::start().await.expect("loopback can be listened on"));
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..40 {
        let server = std::sync::Arc::clone(&server);
        tasks.spawn(async move {
            let name = format!("n-{index}");
            send(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
            let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let (status, answer) = send(&server, Method::POST, &format!("/api/v1/namespaces/{name}/pods"), pod).await;
            assert_eq!(status, StatusCode::CREATED, "{answer}");
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("each pod is created");
    }
}

#[tokio::test]
async fn a_quota_counts_what_is_there_and_frees_what_is_gone() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1", "count/configmaps": "3"}}});
    send(&server, Method::POST, "/api/v1/namespaces/default/resourcequotas", quota).await;
    let used = async || {
        let path = "/api/v1/namespaces/default/resourcequotas/q";
        send(&server, Method::GET, path, Value::Null).await.1["status"]["used"].clone()
    };
    assert_eq!(used().await, json!({"pods": "0", "count/configmaps": "1"}), "the certificate authority is counted");
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(send(&server, Method::POST, pods, pod("a")).await.0, StatusCode::CREATED);
    assert_eq!(used().await["pods"], json!("1"));
    let (status, refusal) = send(&server, Method::POST, pods, pod("b")).await;
    let message = "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!((status, &refusal["message"]), (StatusCode::FORBIDDEN, &json!(message)));
    let status = json!({"status": {"phase": "Succeeded"}, "metadata": {"name": "a"}});
    send(&server, Method::PUT, &format!("{pods}/a/status"), status).await;
    assert_eq!(used().await["pods"], json!("0"), "a pod that has ended runs no longer");
    assert_eq!(send(&server, Method::POST, pods, pod("b")).await.0, StatusCode::CREATED);
    send(&server, Method::DELETE, &format!("{pods}/b"), Value::Null).await;
    assert_eq!(used().await["pods"], json!("0"));
    assert_eq!(send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a"}})).await.0, StatusCode::CREATED);
    assert_eq!(send(&server, Method::POST, MAPS, json!({"metadata": {"name": "a"}})).await.0, StatusCode::CONFLICT);
    assert_eq!(used().await["count/configmaps"], json!("2"), "an object that exists is counted once");
    assert_eq!(send(&server, Method::DELETE, &format!("{MAPS}/kube-root-ca.crt"), Value::Null).await.0, StatusCode::OK);
    assert_eq!(used().await["count/configmaps"], json!("2"), "an object that is made again is counted");
}
