//! The memory of a pod as a struct of `k8s-openapi` and in a store, beside its JSON and its protobuf.
//!
//! The pods are those of the benchmark, with the defaults and the managed fields that an API server adds.
//! `cargo run -p kooper-bench --bin bench-typed` prints the tables; no figure depends on the machine.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Pod;
use kooper::metrics::Prometheus;
use kooper::prometheus::Registry;
use kooper::retriever::{ApiRetriever, Scope};
use kooper::{CancellationToken, Controller, Operator};
use kooper_apiserver::ApiServer;
use kooper_bench::document::{WORKLOADS, stored};
use kooper_bench::{Api, Kind, metric};
use kooper_protobuf::List;
use kooper_tests::allocator::{Counting, allocations, live};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::service_fn;

/// Pods in the store, as many as in the benchmark.
const STORED: usize = 20_000;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sums over all pods.
#[derive(Default)]
struct Sizes {
    json: usize,
    protobuf: usize,
    /// The struct and what it owns.
    typed: usize,
    allocations: usize,
}

impl Sizes {
    fn of(pods: &[Value]) -> Result<Self> {
        let codec = kooper_protobuf::Kind::of("v1", "Pod").context("the table has no pods")?;
        let mut sizes = Self::default();
        for pod in pods {
            let json = serde_json::to_vec(pod)?;
            sizes.json += json.len();
            sizes.protobuf += codec.encode(pod)?.len();
            let before = (live(), allocations());
            let typed: Pod = serde_json::from_slice(&json)?;
            sizes.typed += size_of_val(&typed) + live() - before.0;
            sizes.allocations += allocations() - before.1;
            ensure!(typed.status.is_some(), "a pod without a status");
        }
        Ok(sizes)
    }
}

fn main() -> Result<()> {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    // The server has ended with its runtime before anything is counted.
    let mut pods = runtime()?.block_on(served())?;
    let with = Sizes::of(&pods)?;
    for pod in &mut pods {
        pod["metadata"].as_object_mut().context("an object has metadata")?.remove("managedFields");
    }
    let without = Sizes::of(&pods)?;

    println!("| mean of {} pods | with managed fields | without |\n|---|--:|--:|", pods.len());
    let row = |what: &str, figure: fn(&Sizes) -> usize| {
        println!("| {what} | {} | {} |", figure(&with) / pods.len(), figure(&without) / pods.len());
    };
    row("JSON, bytes", |sizes| sizes.json);
    row("protobuf, bytes", |sizes| sizes.protobuf);
    row("the struct `Pod` and all that it owns, bytes", |sizes| sizes.typed);
    row("allocations while the JSON is decoded", |sizes| sizes.allocations);
    let ratio = |sizes: &Sizes| sizes.typed as f64 / sizes.json as f64;
    println!("| struct divided by JSON | {:.1}× | {:.1}× |", ratio(&with), ratio(&without));

    println!("\n| {STORED} pods in a store | bytes of each |\n|---|--:|");
    for (what, owners) in [("each with its own owner", STORED), ("with one owner for each workload", WORKLOADS)] {
        println!("| {what} | {:.0} |", runtime()?.block_on(in_store(&pods, owners))?);
    }
    Ok(())
}

/// The mean size of a pod in the store of a controller.
async fn in_store(templates: &[Value], owners: usize) -> Result<f64> {
    let mut list = List::new(kooper_protobuf::Kind::of("v1", "PodList").context("the table has no pods")?);
    for index in 0..STORED {
        let mut pod = stored(&templates[index % templates.len()], Kind::Pods, index, 0, 0);
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(format!("{:032x}", index % owners));
        list.push(&pod)?;
    }
    let list: Vec<_> = list.finish(&json!({"resourceVersion": "1"}))?.map(Bytes::from).collect();
    let retriever = ApiRetriever::<Pod>::new(listing(list), Scope::default());
    let registry = Registry::new();
    let operator = Operator::builder()
        .client(ApiServer::start().await?.client())
        .metrics(Arc::new(Prometheus::new(&registry)?))
        .controller(Controller::builder::<Pod>("typed").retriever(retriever).handler(async || {}).build()?)
        .build()?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.run(stop.clone()));
    while metric(&registry.gather(), "kooper_store_objects") < STORED as f64 {
        sleep(Duration::from_millis(10)).await;
    }
    let bytes = metric(&registry.gather(), "kooper_store_bytes") / STORED as f64;
    stop.cancel();
    running.await??;
    Ok(bytes)
}

/// A server of one list in protobuf, which has no streaming lists and whose watches report nothing.
fn listing(list: Vec<Bytes>) -> Client {
    let answer = move |request: Request<Body>| {
        let asks = |parameter| request.uri().query().is_some_and(|query| query.contains(parameter));
        let (streams, watches) = (asks("sendInitialEvents=true"), asks("watch=true"));
        let parts = if watches { Vec::new() } else { list.clone() };
        let parts = stream::iter(parts.into_iter().map(|part| Ok::<_, Infallible>(Frame::data(part))));
        let silent = watches && !streams;
        let end = stream::once(async move { if silent { pending().await } else { Ok(Frame::data(Bytes::new())) } });
        let response = Response::builder().status(if streams { 422 } else { 200 });
        let response = response.header("Content-Type", kooper_protobuf::CONTENT_TYPE);
        ready(response.body(StreamBody::new(parts.chain(end))))
    };
    Client::new(service_fn(answer), "default")
}

/// One pod of each workload, as an API server serves it.
async fn served() -> Result<Vec<Value>> {
    // The pods name service accounts that do not exist, as on the control plane of the benchmark.
    let server = ApiServer::builder().without_accounts().start().await?;
    let api = Api::prepare(server.client(), Kind::Pods).await?;
    let mut pods = Vec::new();
    for index in 0..WORKLOADS {
        pods.push(api.create(index).await?);
    }
    server.shutdown().await;
    Ok(pods)
}
