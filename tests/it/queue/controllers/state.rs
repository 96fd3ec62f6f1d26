//! The state that calls share.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::kube::client::Body;
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kooper::retriever::fixed;

use crate::fixture::{Log, Start, builder, config, eventually, run, run_with};

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
async fn a_program_is_not_ready_between_its_first_list_and_the_end_of_init() {
    let log = Log::default();
    let seen = log.clone();
    let init = move || {
        seen.note("init");
        std::future::ready(Ok::<_, kooper::BoxError>(7u8))
    };
    let handler = log.noting(|state: State<u8>| state.to_string());
    let running = builder("state").retriever(fixed([config("a", "1")]).unwrap()).init(init).handler(handler).start();
    let health = running.health.clone();
    // It is polled between any two other tasks.
    let first = tokio::spawn(poll_fn(move |context| {
        if health.ready().is_ok() {
            return Poll::Ready(log.lines());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }));
    assert!(first.await.unwrap().contains(&"init".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_program_is_not_ready_before_its_lease_has_been_read() {
    let silent = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, kooper::BoxError>>()
    });
    let controller = builder("elected").leader_election(LeaderElection::new()).handler(|| async {});
    let controller = controller.retriever(fixed([config("a", "1")]).unwrap()).build().unwrap();
    let running = run_with(Some(Client::new(silent, "test")), [controller]);
    let health = running.health.clone();
    let first = tokio::spawn(poll_fn(move |context| match health.ready() {
        Err(reasons) if !reasons.contains("has not been read yet") => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        found => Poll::Ready(found),
    }));
    first.await.unwrap().unwrap_err();
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
    let controller = builder("state").state(shared);
    let retriever = fixed([config("a", "1")]).unwrap();
    let _running = controller.retriever(retriever).handler(handle).start();
    eventually("three calls", || log.count() >= 3).await;
    assert_eq!(log.lines()[..3], ["40", "41", "42"]);
}

#[tokio::test(start_paused = true)]
async fn an_init_that_hangs_does_not_delay_others() {
    let log = Log::default();
    let builder = |name: &str| Controller::builder::<ConfigMap>(name).retriever(fixed([config("a", "1")]).unwrap());
    let hangs = builder("hangs").init(std::future::pending::<Result<u8>>).handler(|| async {}).build().unwrap();
    let works = builder("works")
        .init(|| std::future::ready(Ok::<_, kooper::BoxError>(7u8)))
        .handler(log.noting(|state: State<u8>| state.to_string()))
        .build()
        .unwrap();
    let running = run([hangs, works]);
    eventually("the other one", || log.lines() == ["7"]).await;
    assert!(running.health.ready().is_err_and(|why| why == "hangs: it is starting\n"));
}
