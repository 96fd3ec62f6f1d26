//! Benchmarks that do not depend on a server: a million objects from a test source, and a hundred
//! controllers that own one kind.

use parking_lot::Mutex;
use std::convert::Infallible;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Parser, Subcommand};
use futures_util::{Stream, StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kooper::capability::by;
use kooper::leader::LeaderElection;
use kooper::metrics::Prometheus;
use kooper::retriever::{RetrieveError, channel, fixed};
use kooper::{CancellationToken, Controller, Operator, Reader, prometheus};
use kooper::{Health, KindExt};
use kooper_bench::{Usage, longest_held, metric};
use kooper_tests::control_plane::ControlPlane;
use kube::Client;
use kube::client::Body;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::{interval, sleep};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists, leads, handles and lists again.
    Objects {
        #[arg(long, default_value_t = 1_000_000)]
        objects: usize,
    },
    /// Lists by a streaming list, and selects.
    Selections {
        #[arg(long, default_value_t = 1_000_000)]
        objects: usize,
    },
    /// Takes events of pods that none of the controllers owns.
    Controllers {
        #[arg(long, default_value_t = 100)]
        controllers: usize,
        #[arg(long, default_value_t = 1_000)]
        rate: u32,
        #[arg(long, default_value_t = 20)]
        seconds: u32,
    },
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().what {
        What::Objects { objects } => many_objects(objects).await,
        What::Selections { objects } => selections(objects).await,
        What::Controllers { controllers, rate, seconds } => many_controllers(controllers, rate, seconds).await,
    }
}

async fn many_objects(objects: usize) -> anyhow::Result<()> {
    let cluster = tokio::task::spawn_blocking(ControlPlane::start).await?.context("no control plane is built")?;
    let client = kooper_bench::client(cluster.kubeconfig()).await?;
    let (retriever, events) = channel((0..objects).map(|index| config(index, 1)))?;
    let before = Process::now();

    let (filled, calls, all) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (built, called, last) = (filled.clone(), calls.clone(), all.clone());
    let controller = Controller::builder::<ConfigMap>("scale")
        .resync(None)
        .workers(4)
        .timeout(None)
        .retriever(retriever)
        .leader_election(
            LeaderElection::new()
                .namespace("default")
                .lease_duration(Duration::from_secs(3))
                .renew_deadline(Duration::from_secs(2))
                .retry_period(Duration::from_secs(1)),
        )
        .init(move || {
            let built = built.clone();
            async move {
                built.notified().await;
                Ok::<_, kooper::BoxError>(())
            }
        })
        .handler(move || {
            if called.fetch_add(1, Ordering::SeqCst) + 1 >= objects {
                last.notify_one();
            }
            async {}
        })
        .build()?;
    let (registry, health) = (prometheus::Registry::new(), Health::default());
    let metrics = Arc::new(Prometheus::new(&registry)?);
    let operator = Operator::builder().program("bench").client(client).metrics(metrics).health(health);
    let operator = operator.controller(controller).build()?;
    let stop = CancellationToken::new();
    let metric = |name: &str| metric(&registry.gather(), name);

    println!("{objects} objects; MB are 10⁶ bytes\n");
    println!("| step | wall, s | CPU, s | longest lock, ms of CPU | RSS, MB |\n|---|--:|--:|--:|--:|");
    let mut step = Step::begin();
    let running = tokio::spawn(operator.run(stop.clone()));
    wait(|| metric("kooper_store_objects") >= objects as f64).await;
    step.end("first list");
    let (after, bytes) = (Process::now(), metric("kooper_store_bytes"));
    wait(|| metric("kooper_controller_event_queue_length") >= objects as f64).await;
    step.end("leadership acquired, queue filled");
    filled.notify_one();
    all.notified().await;
    step.end("every object handled");
    events.send(Err(RetrieveError::Expired("compacted".to_owned())));
    events.modify(&config(1, 3))?;
    all.notified().await;
    step.end("relist, nothing changed");

    let each = |bytes: f64| bytes / objects as f64;
    println!("\ncompressed contents: {:.0} bytes an object", each(bytes));
    println!(
        "beside them, after the first list: {:.0} bytes an object",
        each((after.resident - before.resident) * 1e6 - bytes)
    );
    let peak = Usage::of(process::id()).peak()?;
    println!("RSS before: {:.0} MB, with the source's own copies; peak: {peak:.0} MB", before.resident);
    println!("leadership acquired {} time(s)", metric("kooper_leader_transitions_total"));
    stop.cancel();
    running.await??;
    drop(cluster);
    Ok(())
}

async fn selections(objects: usize) -> anyhow::Result<()> {
    let list = stream::iter(0..objects).map(|index| line("ADDED", &config(index, 1)));
    let client = server("/api/v1/configmaps", list.chain(stream::once(async { bookmark() })).chain(stream::pending()));
    let selected = Arc::new(Notify::new());
    let done = selected.clone();
    let controller = Controller::builder::<Secret>("scale")
        .resync(None)
        .timeout(None)
        .retriever(fixed([Secret { metadata: config(0, 1).metadata, ..Secret::default() }])?)
        .handler(move |configs: Reader<ConfigMap>| {
            println!("{objects} objects; MB are 10⁶ bytes\n");
            println!("| step | wall, s | CPU, s | longest lock, ms of CPU | RSS, MB |\n|---|--:|--:|--:|--:|");
            let mut step = Step::begin();
            for what in ["first `select` by a label", "second `select` by a label"] {
                let found = configs.select(by::label("app", "app-3"));
                step.end(what);
                assert_eq!(found.count(), objects.div_ceil(10), "the index finds a tenth");
                step.end("its objects decoded");
            }
            done.notify_one();
            async {}
        })
        .build()?;
    let stop = CancellationToken::new();
    let operator = Operator::builder().client(client).controller(controller).build()?;
    let running = tokio::spawn(operator.run(stop.clone()));
    selected.notified().await;
    stop.cancel();
    running.await??;
    Ok(())
}

/// A small object.
fn config(index: usize, version: usize) -> ConfigMap {
    let object = json!({
        "metadata": {
            "name": format!("object-{index}"),
            "namespace": format!("team-{}", index % 1000),
            "uid": format!("00000000-0000-0000-0000-{index:012}"),
            "resourceVersion": version.to_string(),
            "labels": {"app": format!("app-{}", index % 10)},
        },
        "data": {"owner": format!("team-{}", index % 1000), "size": index.to_string()},
    });
    serde_json::from_value(object).unwrap_or_default()
}

async fn many_controllers(count: usize, rate: u32, seconds: u32) -> anyhow::Result<()> {
    let (lines, events) = mpsc::unbounded_channel::<Bytes>();
    for index in 0..1000 {
        lines.send(pod("ADDED", index, 1))?;
    }
    lines.send(bookmark())?;
    let events = stream::unfold(events, async |mut events| Some((events.recv().await?, events)));
    let client = server("/api/v1/pods", events);
    let registry = prometheus::Registry::new();
    let mut operator = Operator::builder().client(client).metrics(Arc::new(Prometheus::new(&registry)?));
    for index in 0..count {
        let controller = Controller::builder::<ConfigMap>(&format!("owner-{index}"))
            .resync(None)
            .workers(1)
            .retriever(fixed(Vec::<ConfigMap>::new())?)
            .owns(Pod::all())
            .handler(async || {})
            .build()?;
        operator = operator.controller(controller);
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.build()?.run(stop.clone()));
    let objects = || {
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap_or_default();
        text.contains("kooper_store_objects{controller=\"owner-0\"} 1000")
    };
    wait(objects).await;
    sleep(Duration::from_secs(2)).await;

    let events = rate * seconds;
    let made: Vec<Bytes> = (0..events).map(|event| pod("MODIFIED", event % 1000, event + 2)).collect();
    let before = Process::now();
    let mut tick = interval(Duration::from_secs(1) / rate);
    for event in made {
        tick.tick().await;
        lines.send(event)?;
    }
    let cpu = Process::now().cpu - before.cpu;
    println!("| controllers | events | CPU, s | CPU per event, µs |\n|--:|--:|--:|--:|");
    println!("| {count} | {events} at {rate}/s | {cpu:.2} | {:.0} |", cpu / f64::from(events) * 1e6);
    stop.cancel();
    running.await??;
    Ok(())
}

/// A pod of some two kilobytes that belongs to a ReplicaSet.
fn pod(kind: &str, index: u32, version: u32) -> Bytes {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{index}"), "namespace": "shop", "uid": format!("uid-{index}"),
            "resourceVersion": version.to_string(),
            "labels": {"app": "web", "pod-template-hash": "7d4b9c", "tier": "front"},
            "annotations": {"example.com/revision": version.to_string(), "example.com/config": "x".repeat(300)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c",
                "uid": "replicaset", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"containers": (0..4).map(|n| json!({"name": format!("c-{n}"), "image": "registry/app:1",
            "env": [{"name": "A", "value": "b"}, {"name": "C", "value": "d"}]})).collect::<Vec<_>>()},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    line(kind, &pod)
}

/// An event as it is sent.
fn line(kind: &str, object: &impl Serialize) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": kind, "object": object})))
}

/// The end of a streaming list.
fn bookmark() -> Bytes {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    line("BOOKMARK", &json!({"metadata": {"resourceVersion": "1", "annotations": annotations}}))
}

/// A server of one watch, and of nothing else.
fn server(path: &'static str, events: impl Stream<Item = Bytes> + Send + 'static) -> Client {
    let events = Arc::new(Mutex::new(Some(events.map(|line| Ok::<_, Infallible>(Frame::data(line))).boxed())));
    let server = tower::service_fn(move |request: Request<Body>| {
        let watched = request.uri().path() == path;
        let events = events.lock().take_if(|_| watched);
        let status = if events.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let mut answer = Response::new(StreamBody::new(events.unwrap_or_else(|| stream::empty().boxed())));
        *answer.status_mut() = status;
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    Client::new(server, "default")
}

async fn wait(holds: impl Fn() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Cost of a step, measured from the end of the previous one.
struct Step {
    began: Instant,
    before: Process,
}

impl Step {
    fn begin() -> Self {
        longest_held();
        Self { began: Instant::now(), before: Process::now() }
    }

    fn end(&mut self, what: &str) {
        let (now, held) = (Process::now(), longest_held().as_secs_f64() * 1e3);
        let (wall, cpu) = (self.began.elapsed().as_secs_f64(), now.cpu - self.before.cpu);
        println!("| {what} | {wall:.2} | {cpu:.2} | {held:.1} | {:.0} |", now.resident);
        *self = Self { began: Instant::now(), before: now };
    }
}

/// The use of this process.
struct Process {
    /// Seconds.
    cpu: f64,
    /// Megabytes.
    resident: f64,
}

impl Process {
    fn now() -> Self {
        let usage = Usage::of(process::id());
        Self { cpu: usage.cpu().unwrap_or_default().as_secs_f64(), resident: usage.resident().unwrap_or_default() }
    }
}
