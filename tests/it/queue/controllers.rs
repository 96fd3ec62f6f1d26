//! Controllers and operators without a server: their settings, and what they have in common.

mod failing;
mod filters;
mod layers;
mod requests;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, Stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::controller::{Task, operator};
use kooper::leader::LeaderElection;
use kooper::metrics::{Counter, Gauge, MetricsError, MetricsRecorder, ReadGauge};
use kooper::prelude::*;
use kooper::retriever::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest, channel, fixed};
use kooper::shards::Shards;
use kooper::{BoxError, CancellationToken, Controller, Operator, RunError};
use kube::client::Body;

use crate::fixture::{Log, builder, config, eventually, run, with_name};

struct Panics;

impl MetricsRecorder for Panics {
    fn inc_event_queued(&self, _: &str, _: bool) {
        panic!("no events");
    }
    fn observe_in_queue_duration(&self, _: &str, _: Duration) {
        panic!("no waits");
    }
    fn observe_processing_duration(&self, _: &str, _: bool, _: Duration) {
        panic!("no durations");
    }
    fn register_queue_length(&self, _: &str, _: ReadGauge) -> Result<(), MetricsError> {
        panic!("no lengths")
    }
    fn count(&self, _: &str, _: Counter) {
        panic!("no counts");
    }
    fn register_gauge(&self, _: &str, _: Gauge, _: ReadGauge) -> Result<(), MetricsError> {
        panic!("no gauges")
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_loses_only_measurements() {
    let log = Log::default();
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let controller = builder("measured")
        .retriever(retriever)
        .handler(log.noting(|call: Call| format!("{} {}", call.key().name(), call.reasons())))
        .build()
        .unwrap();
    let operator = Operator::builder().controller(controller).metrics(Arc::new(Panics)).build().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.run(stop.clone()));
    eventually("the first call", || log.lines() == ["a initial"]).await;
    events.modify(&config("a", "2")).unwrap();
    events.add(&config("b", "3")).unwrap();
    eventually("each change", || log.count() == 3).await;
    assert_eq!(log.lines(), ["a initial", "a modified", "b added"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// Panics whenever it is asked for its longest silence, except for the second time: its answer is kept.
struct PanickingRetriever<R>(R, AtomicUsize);

impl<R: Retriever<ConfigMap>> Retriever<ConfigMap> for PanickingRetriever<R> {
    async fn list(&self, request: ListRequest) -> Result<Page, RetrieveError> {
        self.0.list(request).await
    }

    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        self.0.watch(request).await
    }

    fn longest_silence(&self) -> Option<Duration> {
        assert!(self.1.fetch_add(1, Ordering::SeqCst) == 1, "no silence");
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_retriever_panics_at_the_start_is_started_again() {
    let (retriever, log) =
        (PanickingRetriever(fixed([config("a", "1")]).unwrap(), AtomicUsize::new(0)), Log::default());
    let controller =
        builder("panics").retriever(retriever).handler(log.noting(|call: Call| call.key().name().to_owned()));
    let running = run([controller.build().unwrap()]);
    let panicked = "`retriever` failed: it panicked: no silence";
    eventually("the panic", || running.health.ready().is_err_and(|why| why.contains(panicked))).await;
    eventually("the call", || log.lines() == ["a"]).await;
    assert!(running.health.ready().is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_handler_serves_independent_controllers_of_different_kinds() {
    async fn count<K: Resource<DynamicType = ()>>(object: Arc<K>, log: State<Log>) -> Result<()> {
        log.note(format!("{} {}", K::kind(&()), object.meta().name.as_deref().unwrap_or_default()));
        if K::kind(&()) == "Secret" { Err("no secrets".into()) } else { Ok(()) }
    }
    let log = Log::default();
    let secret: Secret = with_name("s");
    let first = builder("multi-configmap")
        .retriever(fixed([config("c", "1")]).unwrap())
        .state(log.clone())
        .handler(count::<ConfigMap>)
        .build()
        .unwrap();
    let second = Controller::builder::<Secret>("multi-secret")
        .resync(None)
        .retries(1)
        .retriever(fixed([secret]).unwrap())
        .state(log.clone())
        .handler(count::<Secret>)
        .build()
        .unwrap();
    let running = run([first, second]);
    eventually("one call and two", || log.count() == 3).await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["ConfigMap c", "Secret s", "Secret s"]);
    let succeeded = "controller_runtime_reconcile_total{controller=\"multi-configmap\",result=\"success\"}";
    assert_eq!(running.metric(succeeded), Some(1.0));
    let series = |success| {
        format!(
            "kooper_controller_processed_event_duration_seconds_count{{controller=\"multi-secret\",success=\"{success}\"}}"
        )
    };
    assert_eq!((running.metric(&series(true)), running.metric(&series(false))), (Some(0.0), Some(2.0)));
}

#[tokio::test]
async fn an_operator_ends_when_all_its_controllers_have_ended() {
    let error = Operator::builder().build().unwrap().run(CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, RunError::NoControllers), "{error:?}");
}

#[test]
fn an_operator_that_is_polled_while_its_runtime_ends_does_not_panic() {
    let controller = builder("cut").retriever(fixed([]).unwrap()).handler(async || {}).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let context = runtime.enter();
    let operator = Operator::builder().controller(controller).build().unwrap();
    let mut running = Box::pin(operator.run(CancellationToken::new()));
    assert!(running.as_mut().now_or_never().is_none(), "its controllers are tasks of the runtime");
    drop(context);
    drop(runtime);
    assert!(running.as_mut().now_or_never().is_none(), "it ends with the runtime");
}

#[test]
fn errors_in_settings_name_the_problem_and_what_to_write() {
    async fn nothing() {}
    let builder = || Controller::builder::<ConfigMap>("ok").handler(nothing);
    let problem = |result: Result<Controller, kooper::ConfigError>| result.unwrap_err().to_string();
    assert_eq!(
        problem(Controller::builder::<ConfigMap>("").build()),
        "controller ``: name: it is missing: give the controller a name, such as `echo`"
    );
    assert!(problem(Controller::builder::<ConfigMap>("ok").build()).contains("handler: it is missing"));
    assert!(problem(Controller::builder::<ConfigMap>("Not_OK").build()).contains("`Not_OK`"));
    assert!(problem(builder().workers(0).build()).contains("workers: a controller needs workers: set 1 or more"));
    assert!(problem(builder().labels("a in b").build()).contains("labels: "));
    assert!(problem(builder().fields("a>b").build()).contains("fields: "));
    assert!(problem(builder().namespaces(["Nope"]).build()).contains("namespaces: "));
    assert!(problem(builder().resync(Duration::ZERO).build()).contains("resync: "));
    assert!(problem(builder().backoff(Duration::from_secs(2), Duration::from_secs(1)).build()).contains("backoff: "));
    assert!(problem(builder().rbac(["pods: fly away"]).build()).contains("rbac: "));
    assert!(problem(builder().changed([]).build()).contains("changed: "));
    let previous = builder().previous_finalizers(["example.com/old"]);
    assert_eq!(
        problem(previous.build()),
        "controller `ok`: previous_finalizers: the previous finalizer \"example.com/old\" is removed by `cleanup`: set \
         `cleanup` with the current finalizer, or leave the previous one out"
    );
    let twice = Operator::builder().controller(builder().retriever(fixed([]).unwrap()).build().unwrap());
    let twice = twice.controller(builder().retriever(fixed([]).unwrap()).build().unwrap()).build();
    assert_eq!(
        twice.unwrap_err().to_string(),
        "controller `ok`: name: two controllers have this name: rename one of them"
    );
}

/// A client of a server that never responds, in the namespace `shop`.
fn silent() -> Client {
    let silent =
        tower::service_fn(|_: http::Request<Body>| std::future::pending::<Result<http::Response<Body>, BoxError>>());
    Client::new(silent, "shop")
}

#[tokio::test]
async fn a_finalizer_belongs_to_one_controller_of_a_kind() {
    fn keeper<K: Kind>(name: &str, finalizer: &str, previous: &str) -> Controller {
        let builder = Controller::builder::<K>(name).handler(async || {}).cleanup(finalizer, async || {});
        builder.previous_finalizers([previous]).build().unwrap()
    }
    let client = silent();
    let problem = |one: Controller, other: Controller| {
        let built = Operator::builder().client(client.clone()).controller(one).controller(other).build();
        built.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let one = || keeper::<ConfigMap>("one", "example.com/one", "example.com/old");
    let shared = problem(one(), keeper::<ConfigMap>("two", "example.com/two", "example.com/old"));
    assert!(
        shared.contains("previous_finalizers: the controller `one` of the same kind has `example.com/old`"),
        "{shared}"
    );
    let current = problem(one(), keeper::<ConfigMap>("two", "example.com/two", "example.com/one"));
    assert!(current.contains("`example.com/one` is the current finalizer of the controller `one`"), "{current}");
    let of_another_kind = problem(one(), keeper::<Secret>("two", "example.com/old", "example.com/one"));
    assert_eq!(of_another_kind, "");
}

#[tokio::test]
async fn a_lease_belongs_to_one_controller() {
    let named = |name: &str| Controller::builder::<ConfigMap>(name).handler(async || {});
    let elected = |name: &str, election: LeaderElection| named(name).leader_election(election).build().unwrap();
    let shared = |name: &str, shards: Shards| named(name).shards(shards).build().unwrap();
    let pantry = || LeaderElection::new().lease("pantry");
    let client = silent();
    let problem = |controllers: Vec<Controller>| {
        let empty = Operator::builder().program("market").client(client.clone());
        let built = controllers.into_iter().fold(empty, operator::Builder::controller).build();
        built.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let advice = "too, and only one of the two would work: set another `lease` for one of them";
    assert_eq!(
        problem(vec![elected("one", pantry()), elected("two", pantry().namespace("shop"))]),
        format!("controller `two`: leader_election: the controller `one` has the Lease shop/pantry, {advice}")
    );
    assert_eq!(
        problem(vec![elected("one", pantry()), shared("two", Shards::new(4).lease("pantry"))]),
        format!("controller `two`: shards: the controller `one` has the Lease shop/pantry, {advice}")
    );
    let member = LeaderElection::new().lease("pantry--0");
    assert_eq!(
        problem(vec![shared("one", Shards::new(4).lease("pantry")), elected("two", member)]),
        format!("controller `two`: leader_election: the controller `one` has the Lease shop/pantry--0, {advice}")
    );
    let renamed =
        |name: &str| named(name).previous_names(["old"]).leader_election(LeaderElection::new()).build().unwrap();
    assert_eq!(
        problem(vec![renamed("one"), elected("two", LeaderElection::new().lease("market-old"))]),
        "controller `one`: previous_names: the controller `two` has the Lease shop/market-old, and this one would wait \
         for its release: set another `lease` for `two`"
    );
    assert_eq!(problem(vec![renamed("one"), renamed("two"), elected("three", pantry())]), "");
    let daemon = named("one").leader_election(pantry()).daemon(async || {}).build().unwrap();
    let elsewhere = elected("two", pantry().namespace("default"));
    let third = shared("three", Shards::new(4).lease("cellar"));
    let task = Task::builder("sweep", Duration::from_secs(60)).shard_of("three").handler(async || {}).build().unwrap();
    assert_eq!(problem(vec![daemon, elsewhere, third, task]), "");
}

#[test]
fn an_invalid_setting_keeps_the_previous_one() {
    let mut controller = Controller::builder::<ConfigMap>("ok").workers(2).handler(async || {}).build().unwrap();
    let settings = |controller: &Controller| format!("{controller:?}");
    let before = settings(&controller);
    assert!(
        controller
            .set_workers(0)
            .unwrap_err()
            .to_string()
            .contains("workers: a controller needs workers: set 1 or more")
    );
    assert!(controller.set_resync(Some(Duration::ZERO)).unwrap_err().to_string().contains("resync: the duration"));
    let election = LeaderElection::new().lease_duration(Duration::from_secs(1));
    assert!(controller.set_leader_election(Some(election)).unwrap_err().to_string().contains("leader_election: "));
    assert!(!controller.has_leader_election());
    assert_eq!(settings(&controller), before);
    controller.set_workers(3).unwrap();
    controller.set_resync(None).unwrap();
    assert_ne!(settings(&controller), before);
}

#[test]
fn a_controller_that_excludes_leader_election_gets_none_later() {
    let task = || Task::builder("sweep", Duration::from_secs(60)).handler(async || {});
    let shared = Controller::builder::<ConfigMap>("ok").shards(Shards::new(16)).handler(async || {});
    let all = [shared.build(), task().everywhere().build(), task().shard_of("ok").build()];
    for (controller, setting) in all.into_iter().zip(["shards", "everywhere", "shard_of"]) {
        let mut controller = controller.unwrap();
        let problem = controller.set_leader_election(Some(LeaderElection::default())).unwrap_err().to_string();
        assert!(
            problem.contains(&format!(": {setting}: `{setting}` and `leader_election` exclude each other")),
            "{problem}"
        );
        assert!(!controller.has_leader_election());
        controller.set_leader_election(None).unwrap();
        controller.set_workers(2).unwrap();
    }
}

#[test]
fn a_controller_without_a_client_reports_what_needs_one() {
    let refusal = |controller: Controller| Operator::builder().controller(controller).build().unwrap_err().to_string();
    let builder = || Controller::builder::<ConfigMap>("ok").handler(async || {});
    let own = || builder().retriever(fixed([]).unwrap());
    assert!(Operator::builder().controller(own().build().unwrap()).build().is_ok());
    assert_eq!(
        refusal(builder().build().unwrap()),
        "controller `ok`: retriever: its objects are read from the API server, but the operator has no client: set \
         one with `client`, or set a custom retriever"
    );
    assert_eq!(
        refusal(own().leader_election(LeaderElection::default()).build().unwrap()),
        "controller `ok`: leader_election: its Lease is stored on the API server, but the operator has no client: set \
         one with `client`, or remove the leader election"
    );
    assert_eq!(
        refusal(own().handler(async |_: Recorder, _: Client, _: Deleter<Secret>| {}).build().unwrap()),
        "controller `ok`: handler: its arguments and settings need the API server (Deleter<Secret>, Recorder, `Client`), \
         and the operator has no client: set one with `client`"
    );
    // Without the election no client is needed.
    let mut elected = own().leader_election(LeaderElection::default()).build().unwrap();
    elected.set_leader_election(None).unwrap();
    assert!(Operator::builder().controller(elected).build().is_ok());
}
