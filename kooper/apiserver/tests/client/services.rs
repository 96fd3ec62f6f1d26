//! Tests of what the server does for Services.

use http::{Method, StatusCode};
use kooper_apiserver::ApiServer;
use serde_json::{Value, json};

use super::send;

#[tokio::test]
async fn the_server_is_found_by_a_service() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let service = "/api/v1/namespaces/default/services/kubernetes";
    for _ in 0..2 {
        let (status, found) = send(&server, Method::GET, service, Value::Null).await;
        assert_eq!((status, &found["spec"]["ports"][0]["port"]), (StatusCode::OK, &json!(443)));
        assert_eq!(found["spec"]["ports"][0]["targetPort"], json!(server.address().port()));
        send(&server, Method::DELETE, service, Value::Null).await;
    }
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let (_, slice) = send(&server, Method::GET, slice, Value::Null).await;
    assert_eq!(slice["ports"][0]["port"], json!(server.address().port()));
}

#[tokio::test]
async fn the_endpoints_of_a_service_go_with_it() {
    let server = ApiServer::start().await.expect("loopback can be listened on");
    let place = |resource: &str| format!("/api/v1/namespaces/default/{resource}");
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    for (resource, object) in [("services", service), ("endpoints", json!({"metadata": {"name": "web"}}))] {
        assert_eq!(send(&server, Method::POST, &place(resource), object).await.0, StatusCode::CREATED);
    }
    for (query, left) in [("?dryRun=All", StatusCode::OK), ("", StatusCode::NOT_FOUND)] {
        let service = place(&format!("services/web{query}"));
        assert_eq!(send(&server, Method::DELETE, &service, Value::Null).await.0, StatusCode::OK);
        assert_eq!(send(&server, Method::GET, &place("endpoints/web"), Value::Null).await.0, left);
    }
}
