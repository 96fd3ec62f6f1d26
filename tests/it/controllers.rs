//! Filters, state, middleware and several controllers, without a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::handler::Input;
use kooper::kube::core::Status;
use kooper::leader::LeaderElection;
use kooper::metrics::{Counter, Gauge, MetricsError, MetricsRecorder, ReadGauge};
use kooper::prelude::*;
use kooper::retriever::{channel, fixed};
use kooper::{CancellationToken, Changed, Controller, Operator, RunError};
use tower::{Layer, Service};

use crate::fixture::{Log, config, eventually, run};

#[tokio::test(start_paused = true)]
async fn a_change_outside_of_the_configured_sections_calls_no_handler() {
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::builder::<ConfigMap>("changed")
        .resync(None)
        .changed([Changed::Generation])
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(call.reasons().to_string());
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 1).await;
    let mut labelled = config("a", "1");
    labelled.metadata.labels = Some([("new".to_owned(), "label".to_owned())].into());
    events.modify(&labelled).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.count(), 1, "a label is not a change of the data");
    labelled.data = config("a", "2").data;
    events.modify(&labelled).unwrap();
    eventually("the data", || log.count() == 2).await;
    labelled.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    events.modify(&labelled).unwrap();
    eventually("the deletion mark", || log.count() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_status_alone_calls_no_handler_with_changed_generation() {
    let mut web = Deployment::default();
    web.metadata.name = Some("web".to_owned());
    web.metadata.uid = Some("1".to_owned());
    web.metadata.generation = Some(1);
    let (retriever, events) = channel([web.clone()]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::builder::<Deployment>("status-only")
        .resync(None)
        .changed([Changed::Generation])
        .retriever(retriever)
        .handler(move |object: Arc<Deployment>| {
            seen.note(format!("{:?}", object.metadata.generation));
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 1).await;
    web.status = Some(DeploymentStatus { replicas: Some(3), ..DeploymentStatus::default() });
    events.modify(&web).unwrap();
    web.metadata.generation = Some(2);
    events.modify(&web).unwrap();
    eventually("the new generation", || log.count() == 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.lines(), ["Some(1)", "Some(2)"]);
    web.status = None;
    events.modify(&web).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.count(), 2, "a status is not a change of the generation");
}

#[tokio::test(start_paused = true)]
async fn when_is_called_for_events_the_first_list_and_resyncs() {
    let (retriever, events) = channel([config("yes", "1"), config("no", "0")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let open = Arc::new(AtomicU32::new(0));
    let gate = open.clone();
    let controller = Controller::builder::<ConfigMap>("when")
        .resync(Duration::from_secs(60))
        .when(move |object| {
            object.data.as_ref().is_some_and(|data| data["value"] == "1") || gate.load(Ordering::SeqCst) == 1
        })
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(format!("{} {}", call.key().name(), call.reasons()));
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.lines() == ["yes initial"]).await;
    events.modify(&config("yes", "0")).unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(log.count(), 1, "neither passes the filter now");
    open.store(1, Ordering::SeqCst);
    eventually("both at resync", || {
        let lines = log.lines();
        lines.contains(&"yes resync".to_owned()) && lines.contains(&"no resync".to_owned())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn when_is_called_before_each_call_for_any_reason() {
    let (retriever, _events) = channel([config("retried", "1"), config("asks-again", "1")]).unwrap();
    let log = Log::default();
    let seen = log.clone();
    let open = Arc::new(AtomicU32::new(1));
    let gate = open.clone();
    let controller = Controller::builder::<ConfigMap>("when-each-call")
        .resync(None)
        .backoff(Duration::from_secs(60), Duration::from_secs(60))
        .when(move |_| gate.load(Ordering::SeqCst) == 1)
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(format!("{} {}", call.key().name(), call.reasons()));
            let fails = call.key().name() == "retried";
            async move {
                let again = Action::requeue_after(Duration::from_secs(60));
                if fails { Err("it fails") } else { Ok(again) }
            }
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 2).await;
    open.store(0, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(log.count(), 2, "neither a retry nor a requeue calls the handler for a filtered object");
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_of_a_failing_object_is_handled_at_once_and_other_changes_within_ten_seconds() {
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let log = Log::default();
    let (seen, start) = (log.clone(), tokio::time::Instant::now());
    let controller = Controller::builder::<ConfigMap>("failing")
        .resync(None)
        .retriever(retriever)
        .handler(move |object: Arc<ConfigMap>, call: Call| {
            let label = object.metadata.labels.as_ref().map_or("", |labels| &labels["n"]);
            let value = &object.data.as_ref().unwrap()["value"];
            seen.note(format!("{} {label} {value} {}", start.elapsed().as_secs(), call.attempt()));
            async { Err::<(), _>(HandlerError::retry_after(Duration::from_secs(86_400), "tomorrow")) }
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("the first list", || log.count() == 1).await;
    let labelled = |n: u32, value: &str| {
        let mut object = config("a", value);
        object.metadata.labels = Some([("n".to_owned(), n.to_string())].into());
        object
    };
    for n in 1..=4 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        events.modify(&labelled(n, "1")).unwrap();
    }
    eventually("the labels", || log.count() == 3).await;
    events.modify(&labelled(5, "2")).unwrap();
    eventually("the fix", || log.count() == 4).await;
    let mut marked = labelled(5, "2");
    marked.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    events.modify(&marked).unwrap();
    eventually("the deletion mark", || log.count() == 5).await;
    assert_eq!(log.lines(), ["0  1 1", "1 1 1 2", "11 4 1 3", "11 5 2 1", "11 5 2 1"]);
}

#[tokio::test(start_paused = true)]
async fn one_of_the_objects_that_lack_a_permission_is_retried_and_the_others_follow_once_it_is_granted() {
    let (retriever, _events) = channel((0..50).map(|n| config(&n.to_string(), "1"))).unwrap();
    let log = Log::default();
    let granted = Arc::new(AtomicU32::new(0));
    let (seen, rule) = (log.clone(), granted.clone());
    let controller = Controller::builder::<ConfigMap>("forbidden")
        .resync(None)
        .retriever(retriever)
        .handler(move |call: Call| {
            let result = if rule.load(Ordering::SeqCst) == 1 {
                seen.note(call.key().name());
                Ok(())
            } else {
                seen.note("");
                let message = format!(
                    "services \"{}\" is forbidden: User \"shop\" cannot patch resource \"services\" in API group \"\" in the namespace \"test\"",
                    call.key().name()
                );
                let status = Status { code: 403, message, reason: "Forbidden".to_owned(), ..Status::default() };
                Err(kube::Error::Api(Box::new(status)))
            };
            async { result }
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("each was refused", || log.count() >= 50).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let refused = log.count() - 50;
    assert!((110..=150).contains(&refused), "{refused} attempts in an hour");
    granted.store(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(45)).await;
    let mut handled = log.lines();
    handled.retain(|name| !name.is_empty());
    handled.sort();
    handled.dedup();
    assert_eq!(handled.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn init_runs_once_for_all_controllers_and_is_retried_when_it_fails() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    async fn settings() -> Result<String> {
        match TRIES.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the database is away".into()),
            _ => Ok("ready".to_owned()),
        }
    }
    let log = Log::default();
    let controller = |name: &str| {
        let seen = log.clone();
        Controller::builder::<ConfigMap>(name)
            .retriever(fixed([config("a", "1")]).unwrap())
            .init(settings)
            .handler(move |state: State<String>, call: Call| {
                seen.note(format!("{} {}", call.controller(), *state));
                async {}
            })
            .build()
            .unwrap()
    };
    let running = run([controller("one"), controller("two")]);
    eventually("a reason why not", || {
        running.health.ready().is_err_and(|why| why.contains("`init` failed: the database is away"))
    })
    .await;
    eventually("both", || log.count() == 2).await;
    assert_eq!(TRIES.load(Ordering::SeqCst), 2, "one failure, one state for both");
    assert!(running.health.ready().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_state_given_to_the_builder_is_shared_by_all_calls() {
    struct Shared {
        calls: AtomicU32,
        log: Log,
    }
    async fn handle(shared: State<Shared>) -> Action {
        let call = shared.calls.fetch_add(1, Ordering::Relaxed);
        shared.log.note(call.to_string());
        Action::requeue_after(Duration::from_secs(1))
    }
    let log = Log::default();
    let shared = Shared { calls: AtomicU32::new(40), log: log.clone() };
    let controller = Controller::builder::<ConfigMap>("state").resync(None).state(shared);
    let retriever = fixed([config("a", "1")]).unwrap();
    let _running = run([controller.retriever(retriever).handler(handle).build().unwrap()]);
    eventually("three calls", || log.count() >= 3).await;
    assert_eq!(log.lines()[..3], ["40", "41", "42"]);
}

#[tokio::test(start_paused = true)]
async fn an_init_that_hangs_does_not_delay_others() {
    let log = Log::default();
    let seen = log.clone();
    let builder = |name: &str| Controller::builder::<ConfigMap>(name).retriever(fixed([config("a", "1")]).unwrap());
    let hangs = builder("hangs").init(std::future::pending::<Result<u8>>).handler(|| async {}).build().unwrap();
    let works = builder("works")
        .init(|| std::future::ready(Ok::<_, kooper::BoxError>(7u8)))
        .handler(move |state: State<u8>| {
            seen.note(state.to_string());
            async {}
        })
        .build()
        .unwrap();
    let running = run([hangs, works]);
    eventually("the other one", || log.lines() == ["7"]).await;
    assert!(running.health.ready().is_err_and(|why| why == "hangs: it is starting\n"));
}

/// A layer that calls a closure with the key of each call.
#[derive(Clone)]
struct Before<F>(F);

#[derive(Clone)]
struct BeforeService<F, S> {
    before: F,
    inner: S,
}

impl<F: Clone, S> Layer<S> for Before<F> {
    type Service = BeforeService<F, S>;
    fn layer(&self, inner: S) -> BeforeService<F, S> {
        BeforeService { before: self.0.clone(), inner }
    }
}

impl<F, S, O> Service<Input<O>> for BeforeService<F, S>
where
    F: Fn(&ObjectKey),
    S: Service<Input<O>, Response = Action>,
{
    type Response = Action;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, input: Input<O>) -> S::Future {
        (self.before)(input.call.key());
        self.inner.call(input)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_layer_is_the_outermost() {
    let log = Log::default();
    let seen = log.clone();
    let noted = |name: &'static str| {
        let log = log.clone();
        Before(move |key: &ObjectKey| log.note(format!("{name} {key}")))
    };
    let controller = Controller::builder::<ConfigMap>("layers")
        .retriever(fixed([config("a", "1")]).unwrap())
        .layer(noted("outer"))
        .layer(noted("inner"))
        .handler(move || {
            seen.note("handler");
            async {}
        })
        .build()
        .unwrap();
    let _running = run([controller]);
    eventually("all three", || log.count() >= 3).await;
    assert_eq!(log.lines()[..3], ["outer test/a", "inner test/a", "handler"]);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_panics_fails_only_that_call() {
    let log = Log::default();
    let seen = log.clone();
    let controller = Controller::builder::<ConfigMap>("strict")
        .workers(1)
        .retriever(fixed([config("bad", "1"), config("good", "1")]).unwrap())
        .layer(Before(|key: &ObjectKey| assert_ne!(key.name(), "bad")))
        .handler(move |call: Call| {
            seen.note(call.key().name().to_owned());
            async {}
        })
        .build()
        .unwrap();
    let running = run([controller]);
    let panics = "controller_runtime_reconcile_panics_total{controller=\"strict\"}";
    eventually("both", || log.count() == 1 && running.metric(panics) >= Some(2.0)).await;
    assert_eq!(log.lines(), ["good"]);
    running.stop().await.unwrap();
}

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
    let seen = log.clone();
    let (retriever, events) = channel([config("a", "1")]).unwrap();
    let controller = Controller::builder::<ConfigMap>("measured")
        .resync(None)
        .retriever(retriever)
        .handler(move |call: Call| {
            seen.note(format!("{} {}", call.key().name(), call.reasons()));
            async {}
        })
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

#[tokio::test(start_paused = true)]
async fn one_handler_serves_independent_controllers_of_different_kinds() {
    async fn count<K: Resource<DynamicType = ()>>(object: Arc<K>, log: State<Log>) -> Result<()> {
        log.note(format!("{} {}", K::kind(&()), object.meta().name.as_deref().unwrap_or_default()));
        if K::kind(&()) == "Secret" { Err("no secrets".into()) } else { Ok(()) }
    }
    let log = Log::default();
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    let first = Controller::builder::<ConfigMap>("multi-configmap")
        .resync(None)
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
    assert!(problem(builder().access(["pods: fly away"]).build()).contains("access: "));
    assert!(problem(builder().changed([]).build()).contains("changed: "));
    let former = builder().former_finalizers(["example.com/old"]);
    assert_eq!(
        problem(former.build()),
        "controller `ok`: former_finalizers: the former finalizer \"example.com/old\" is removed by `cleanup`: set \
         `cleanup` with the current finalizer, or leave the former one out"
    );
    let twice = Operator::builder().controller(builder().retriever(fixed([]).unwrap()).build().unwrap());
    let twice = twice.controller(builder().retriever(fixed([]).unwrap()).build().unwrap()).build();
    assert_eq!(
        twice.unwrap_err().to_string(),
        "controller `ok`: name: two controllers have this name: rename one of them"
    );
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
fn a_controller_without_a_client_reports_what_needs_one() {
    let refusal = |controller: Controller| Operator::builder().controller(controller).build().unwrap_err().to_string();
    let builder = || Controller::builder::<ConfigMap>("ok").handler(async || {});
    let own = || builder().retriever(fixed([]).unwrap());
    assert!(Operator::builder().controller(own().build().unwrap()).build().is_ok());
    assert_eq!(
        refusal(builder().build().unwrap()),
        "controller `ok`: retriever: its objects are read from the API server, and the operator has no client: set one \
         with `client`, or set a custom retriever"
    );
    assert_eq!(
        refusal(own().leader_election(LeaderElection::default()).build().unwrap()),
        "controller `ok`: leader_election: its Lease is stored on the API server, and the operator has no client: \
         set one with `client`, or remove the leader election"
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
