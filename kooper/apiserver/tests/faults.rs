//! Faults, met by a client that knows nothing of them: `kube`, and plain requests.

#[path = "faults/timing.rs"]
mod timing;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kooper_apiserver::faults::{Fault, On, Reply, Requests, Verb, WatchEvent, WatchEvents};
use kooper_apiserver::{ApiServer, User};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The ConfigMaps of the tests, without the one that each namespace has.
const OWN: &str = "metadata.name!=kube-root-ca.crt";

fn listing() -> ListParams {
    ListParams::default().fields(OWN)
}

async fn server() -> ApiServer {
    ApiServer::start().await.expect("loopback can be listened on")
}

fn maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(server.client())
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

async fn create(server: &ApiServer, name: &str) {
    maps(server).create(&PostParams::default(), &map(name)).await.expect("it is created");
}

async fn set(server: &ApiServer, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"value": value}}));
    maps(server).patch(name, &PatchParams::default(), &patch).await.expect("it is patched");
}

/// The code of a refusal.
fn code<T: std::fmt::Debug>(result: kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// Returns whether the connection was reset. Panics if the request was refused.
fn was_reset<T: std::fmt::Debug>(result: kube::Result<T>) -> bool {
    match result {
        Err(kube::Error::Api(status)) => panic!("it was refused: {status:?}"),
        other => other.is_err(),
    }
}

/// The lines of a watch up to its end, each as `TYPE name`, or as it is.
async fn watch(server: &ApiServer, query: &str) -> Vec<String> {
    let request = Request::get(format!("{MAPS}?watch=1&timeoutSeconds=60&fieldSelector={OWN}&{query}"));
    let response = server.service().oneshot(request.body(Full::new(Bytes::new())).expect("it is a request")).await;
    let Ok(response) = response else { return vec!["reset".to_owned()] };
    let mut body = response.into_body();
    let mut text = Vec::new();
    let mut reset = false;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => text.extend_from_slice(&frame.into_data().expect("there are no trailers")),
            Err(_) => reset = true,
        }
    }
    let short = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(event) => {
            let object = &event["object"];
            let name = object["metadata"]["name"].as_str().map_or_else(|| object["code"].to_string(), str::to_owned);
            format!("{} {name}", event["type"].as_str().unwrap_or_default())
        }
        Err(_) => "corrupt".to_owned(),
    };
    let lines = String::from_utf8(text).expect("it is UTF-8");
    lines.lines().map(short).chain(reset.then(|| "reset".to_owned())).collect()
}

#[tokio::test]
async fn the_nth_write_is_refused() {
    let server = server().await;
    create(&server, "a").await;
    let fault = server.faults().on(Verb::Patch.of("configmaps")).nth(2).reply(409);
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    let write = || async { maps(&server).patch("a", &PatchParams::default(), &patch).await };
    write().await.expect("the first is served");
    assert_eq!(code(write().await), 409);
    write().await.expect("the third is served");
    assert_eq!(fault.times(), 1);
}

#[tokio::test]
async fn a_refusal_is_a_status_with_its_headers() {
    let server = server().await;
    server.faults().on(Verb::Get.of("configmaps")).reply(Reply::new(429).retry_after(7));
    let request = Request::get(format!("{MAPS}/a")).body(Full::new(Bytes::new())).expect("it is a request");
    let response = server.service().oneshot(request).await.expect("it is answered");
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    let body = response.into_body().collect().await.expect("the body ends well").to_bytes();
    let status: Value = serde_json::from_slice(&body).expect("it is JSON");
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps", "retryAfterSeconds": 7}));
}

#[tokio::test]
async fn codes_have_their_reasons() {
    let server = server().await;
    let faults = server.faults();
    for (refusal, reason) in [
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "AlreadyExists"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        let fault = faults.on(Verb::Create).reply(refusal);
        match maps(&server).create(&PostParams::default(), &map("a")).await {
            Err(kube::Error::Api(status)) => assert_eq!((status.code, &*status.reason), (refusal, reason)),
            other => panic!("{other:?}"),
        }
        fault.lift();
    }
    create(&server, "a").await;
}

#[tokio::test]
async fn a_write_is_reset_before_it_happened_or_after() {
    let server = server().await;
    let faults = server.faults();
    faults.on(Verb::Create.of("configmaps").named("before")).reset();
    faults.on(Verb::Create.of("configmaps").named("after")).drop_response();
    for (name, written) in [("before", false), ("after", true)] {
        assert!(was_reset(maps(&server).create(&PostParams::default(), &map(name)).await), "{name}");
        assert_eq!(maps(&server).get_opt(name).await.expect("gets are served").is_some(), written, "{name}");
    }
}

#[tokio::test]
async fn an_answer_is_cut_in_the_middle() {
    let server = server().await;
    create(&server, "a").await;
    let faults = server.faults();
    for verb in [Verb::Get, Verb::List] {
        faults.on(verb.of("configmaps")).nth(1).cut_answer();
    }
    assert!(was_reset(maps(&server).get("a").await));
    assert!(was_reset(maps(&server).list(&listing()).await));
    maps(&server).get("a").await.expect("the next is served");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_takes_its_time_before_the_write_or_after_it() {
    let server = server().await;
    let faults = server.faults();
    let delay = Duration::from_secs(90);
    faults.on(Verb::Create.of("configmaps").named("late")).delay(delay);
    faults.on(Verb::Create.of("configmaps").named("early")).delay_answer(delay);
    for (name, written) in [("late", false), ("early", true)] {
        let begun = tokio::time::Instant::now();
        let maps = maps(&server);
        let params = PostParams::default();
        let object = map(name);
        let mut creating = std::pin::pin!(maps.create(&params, &object));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut creating).await.is_err());
        assert_eq!(maps.get_opt(name).await.expect("gets are served").is_some(), written, "{name}");
        creating.await.expect("it is created");
        assert!(begun.elapsed() >= delay, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_fault_is_only_for_what_it_names() {
    let server = server().await;
    let faults = server.faults();
    let robot = User::new("robot", &["system:masters"]);
    let fault =
        faults.on(Requests::writes().of("configmaps").in_namespace("default").named("a").by("robot")).reply(500);
    let robots: Api<ConfigMap> = Api::default_namespaced(server.client_of(robot.clone()));
    create(&server, "a").await;
    robots.create(&PostParams::default(), &map("b")).await.expect("another name is served");
    robots.get("a").await.expect("a read is served");
    let elsewhere: Api<ConfigMap> = Api::namespaced(server.client_of(robot), "kube-system");
    elsewhere.create(&PostParams::default(), &map("a")).await.expect("another namespace is served");
    assert_eq!(fault.times(), 0);
    assert_eq!(code(robots.delete("a", &kube::api::DeleteParams::default()).await), 500);
    assert_eq!(fault.times(), 1);
}

#[tokio::test]
async fn a_subresource_is_named_as_in_a_role() {
    let server = server().await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let pod = serde_json::from_value(pod).expect("it is a pod");
    pods.create(&PostParams::default(), &pod).await.expect("it is created");
    server.faults().on(Verb::Patch.of("pods/status")).reply(503);
    let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
    assert_eq!(code(pods.patch_status("a", &PatchParams::default(), &patch).await), 503);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    pods.patch("a", &PatchParams::default(), &patch).await.expect("the object itself is served");
}

#[tokio::test]
async fn the_fault_that_was_added_last_is_injected_and_all_of_them_count() {
    let server = server().await;
    create(&server, "a").await;
    let faults = server.faults();
    let every = faults.on(Verb::Get).reply(500);
    let second = faults.on(Verb::Get.of("configmaps")).nth(2).reply(503);
    let codes = [code(maps(&server).get("a").await), code(maps(&server).get("a").await)];
    assert_eq!((codes, every.times(), second.times()), ([500, 503], 1, 1));
    faults.clear();
    maps(&server).get("a").await.expect("there is no fault left");
}

#[tokio::test(start_paused = true)]
async fn watch_events_meet_their_faults() {
    type Add = fn(On<WatchEvents>) -> Fault;
    let cases: [(&str, Add, &[&str]); 11] = [
        ("skip", On::skip, &["ADDED a", "ADDED c", "DELETED a"]),
        ("repeat", On::repeat, &["ADDED a", "ADDED b", "ADDED b", "ADDED c", "DELETED a"]),
        ("delay", |on| on.delay(Duration::from_secs(3)), &["ADDED a", "ADDED b", "ADDED c", "DELETED a"]),
        ("reorder", On::reorder, &["ADDED a", "ADDED c", "ADDED b", "DELETED a"]),
        ("close", On::close, &["ADDED a"]),
        ("reset", On::<WatchEvents>::reset, &["ADDED a", "reset"]),
        ("cut", On::cut, &["ADDED a", "corrupt", "reset"]),
        ("corrupt", On::corrupt, &["ADDED a", "corrupt", "ADDED c", "DELETED a"]),
        ("expire", On::expire, &["ADDED a", "ERROR 410"]),
        ("expire after", |on| on.expire_after(Duration::from_secs(3)), &["ADDED a", "ERROR 410"]),
        ("none", |on| on.nth(9).skip(), &["ADDED a", "ADDED b", "ADDED c", "DELETED a"]),
    ];
    for (name, add, expected) in cases {
        let server = server().await;
        let list = maps(&server).list(&listing()).await.expect("lists are served");
        let version = list.metadata.resource_version.expect("a list has a version");
        for name in ["a", "b", "c"] {
            create(&server, name).await;
        }
        maps(&server).delete("a", &kube::api::DeleteParams::default()).await.expect("it is deleted");
        add(server.faults().on_event(WatchEvent::Added.of("configmaps").named("b")));
        assert_eq!(watch(&server, &format!("resourceVersion={version}")).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_watch_stays_open_and_a_new_one_is_served() {
    let server = server().await;
    create(&server, "a").await;
    let stall = server.faults().on_event(WatchEvents::all()).nth(1).stall();
    let stalled = tokio::time::timeout(Duration::from_secs(3600), watch(&server, "")).await;
    assert!(stalled.is_err(), "{stalled:?}");
    assert_eq!((watch(&server, "").await, stall.times()), (vec!["ADDED a".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_cache_shows_an_old_state_where_old_states_are_accepted() {
    let server = server().await;
    create(&server, "a").await;
    let frozen = server.faults().freeze("configmaps");
    create(&server, "b").await;
    set(&server, "a", "new").await;

    let cached = ListParams { resource_version: Some("0".to_owned()), ..listing() };
    let names = |list: kube::core::ObjectList<ConfigMap>| {
        let name = |map: ConfigMap| (map.metadata.name.unwrap_or_default(), map.data.is_some());
        list.items.into_iter().map(name).collect::<BTreeMap<_, _>>()
    };
    let old = names(maps(&server).list(&cached).await.expect("lists are served"));
    assert_eq!(old.into_iter().collect::<Vec<_>>(), [("a".to_owned(), false)]);
    let now = names(maps(&server).list(&listing()).await.expect("lists are served"));
    assert_eq!(now.len(), 2);
    assert_eq!(watch(&server, "").await, ["ADDED a"]);

    let version = maps(&server).get("a").await.expect("gets are served").metadata.resource_version;
    let newer = ListParams { resource_version: version, ..listing() };
    assert_eq!(code(maps(&server).list(&newer.matching(kube::api::VersionMatch::NotOlderThan)).await), 504);

    drop(frozen);
    let old = names(maps(&server).list(&cached).await.expect("lists are served"));
    assert_eq!(old.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_open_while_the_cache_is_frozen_continues_afterwards() {
    let server = server().await;
    create(&server, "a").await;
    let frozen = server.faults().freeze(Verb::Watch.of("configmaps").by("admin"));
    let watching = async {
        tokio::join!(watch(&server, ""), async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            create(&server, "b").await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(frozen);
        })
    };
    assert_eq!(watching.await.0, ["ADDED a", "ADDED b"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_cuts_watches_and_keeps_the_data() {
    let server = server().await;
    create(&server, "a").await;
    let faults = server.faults();
    let (lines, ()) = tokio::join!(watch(&server, ""), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        faults.restart();
    });
    assert_eq!(lines, ["ADDED a", "reset"]);
    let version = maps(&server).get("a").await.expect("the data is there").metadata.resource_version;
    create(&server, "b").await;
    faults.restart();
    let version = version.expect("an object has a version");
    assert_eq!(watch(&server, &format!("resourceVersion={version}")).await, ["ERROR 410"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_served_during_an_outage() {
    let server = server().await;
    let faults = server.faults();
    faults.on(Verb::Create.of("configmaps")).delay(Duration::from_secs(3600));
    let outage = faults.outage();
    assert!(was_reset(maps(&server).list(&listing()).await));
    assert_eq!(watch(&server, "").await, ["reset"]);
    drop(outage);
    let (maps, params, object) = (maps(&server), PostParams::default(), map("a"));
    let (created, ()) = tokio::join!(maps.create(&params, &object), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        faults.restart();
    });
    assert!(was_reset(created));
    maps.list(&listing()).await.expect("it is served again");
}

#[tokio::test]
async fn the_last_requests_are_kept() {
    let server = server().await;
    let faults = server.faults();
    faults.on(Verb::Patch).reply(409);
    faults.on(Verb::Delete).drop_response();
    create(&server, "a").await;
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    maps(&server).patch("a", &PatchParams::default(), &patch).await.expect_err("it is refused");
    maps(&server).delete("a", &kube::api::DeleteParams::default()).await.expect_err("it is not answered");
    let requests: Vec<_> = faults.requests().iter().map(ToString::to_string).collect();
    assert_eq!(
        requests,
        [
            "create configmaps default/a by admin: 201",
            "patch configmaps default/a by admin: 409, injected",
            "delete configmaps default/a by admin: connection reset, injected",
        ]
    );
    for _ in 0..200 {
        maps(&server).get_opt("a").await.expect("gets are served");
    }
    assert_eq!(faults.requests().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_user_is_spared() {
    let server = server().await;
    let faults = server.faults();
    faults.spare("witness");
    let witness: Api<ConfigMap> = Api::default_namespaced(server.client_of(User::new("witness", &["system:masters"])));
    faults.on(Requests::all()).reply(503);
    let frozen = faults.freeze("configmaps");
    let outage = faults.outage();
    witness.create(&PostParams::default(), &map("a")).await.expect("it is served");
    let cached = ListParams { resource_version: Some("0".to_owned()), ..listing() };
    assert_eq!(witness.list(&cached).await.expect("it is served").items.len(), 1);
    drop((outage, frozen));
    assert!(faults.requests().is_empty());
    assert_eq!(code(maps(&server).get("a").await), 503);
}

/// The same faults, met by a client that is connected to the socket.
#[tokio::test]
async fn faults_are_met_over_a_socket() {
    let server = server().await;
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()).expect("it is a kubeconfig");
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.expect("it is complete");
    config.default_retry = false;
    let client = kube::Client::try_from(config).expect("it can be connected to");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let faults = server.faults();
    faults.on(Verb::Create.of("configmaps").named("lost")).drop_response();
    faults.on(Verb::Create.of("configmaps").named("unserved")).reset();
    faults.on(Verb::Create.of("configmaps").named("refused")).reply(503);
    for (name, written) in [("lost", true), ("unserved", false), ("refused", false), ("fine", true)] {
        let created = maps.create(&PostParams::default(), &map(name)).await;
        assert_eq!(created.is_ok(), name == "fine", "{created:?}");
        assert_eq!(maps.get_opt(name).await.expect("gets are served").is_some(), written, "{name}");
    }
    faults.on(Verb::List.of("configmaps")).nth(1).cut_answer();
    assert!(was_reset(maps.list(&listing()).await));
    let outage = faults.outage();
    assert!(was_reset(maps.list(&listing()).await));
    drop(outage);
    assert_eq!(maps.list(&listing()).await.expect("it is served again").items.len(), 2);
}
