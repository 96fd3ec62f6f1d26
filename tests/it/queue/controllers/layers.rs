//! Middleware around the handler.

use std::task::{Context, Poll};

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::Controller;
use kooper::handler::Input;
use kooper::prelude::*;
use kooper::retriever::fixed;
use tower::{Layer, Service};

use crate::fixture::{Log, Start, config, eventually};

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
    let noted = |name: &'static str| {
        let log = log.clone();
        Before(move |key: &ObjectKey| log.note(format!("{name} {key}")))
    };
    let _running = Controller::builder::<ConfigMap>("layers")
        .retriever(fixed([config("a", "1")]).unwrap())
        .layer(noted("outer"))
        .layer(noted("inner"))
        .state(log.clone())
        .handler(async |log: State<Log>| log.note("handler"))
        .start();
    eventually("all three", || log.count() >= 3).await;
    assert_eq!(log.lines()[..3], ["outer test/a", "inner test/a", "handler"]);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_panics_fails_only_that_call() {
    let log = Log::default();
    let running = Controller::builder::<ConfigMap>("strict")
        .workers(1)
        .retriever(fixed([config("bad", "1"), config("good", "1")]).unwrap())
        .layer(Before(|key: &ObjectKey| assert_ne!(key.name(), "bad")))
        .handler(log.noting(|call: Call| call.key().name().to_owned()))
        .start();
    let panics = "controller_runtime_reconcile_panics_total{controller=\"strict\"}";
    eventually("both", || log.count() == 1 && running.metric(panics) >= Some(2.0)).await;
    assert_eq!(log.lines(), ["good"]);
    running.stop().await.unwrap();
}
