//! Many watches of one API server over HTTP/1.1, a connection for each, or over HTTP/2, one for all.

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kooper_bench::{Proxy, SENT, Usage, now, send};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::{interval, sleep};
use tower::ServiceBuilder;

#[derive(Parser)]
struct Arguments {
    /// The API server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Its process, whose memory and CPU time are read.
    #[arg(long)]
    server: u32,
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// Number of watches.
    #[arg(long)]
    watches: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Http1,
    Http2,
}

/// Objects of each watch, and the fewest of all: writes to one object wait for each other.
const OBJECTS: usize = 4;
const FEWEST: usize = 200;
/// Objects of the list that is read beside the watches, and the size of each.
const LARGE: (usize, usize) = (400, 100_000);
/// Changes a second, and how many.
const RATE: u32 = 100;
const CHANGES: usize = 1_000;
/// The longest wait for the watches.
const TIMEOUT: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_secs(3);
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// State shared by the watches.
#[derive(Default)]
struct Shared {
    open: AtomicUsize,
    latencies: Mutex<Vec<f64>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { kubeconfig, server, protocol, watches } = Arguments::parse();
    let config = kooper_bench::config(&kubeconfig).await?;
    let (server, own) = (Usage::of(server), Usage::of(std::process::id()));
    let writer = client(&config, Protocol::Http1)?;
    create(&writer, watches).await?;

    let authority = config.cluster_url.authority().context("no address in the kubeconfig")?;
    let proxy = Proxy::start(authority.as_str().parse()?).await?;
    let mut through = config.clone();
    through.cluster_url = format!("https://{}", proxy.address()).parse()?;
    let reader = client(&through, protocol)?;
    sleep(SETTLE).await;
    let before = (server.resident()?, own.resident()?);
    let shared = Arc::new(Shared::default());
    let started = Instant::now();
    for watch in 0..watches {
        tokio::spawn(follow(reader.clone(), watch, shared.clone()));
    }
    let open = shared.wait(watches).await;
    let connected = started.elapsed();
    sleep(SETTLE).await;
    let memory = (server.resident()? - before.0, own.resident()? - before.1);

    let quiet = change(&writer, watches, &shared).await?;
    let list = tokio::spawn(large_lists(reader.clone()));
    let busy = change(&writer, watches, &shared).await?;
    list.abort();

    let (reconnected, cpu) = if open == watches {
        proxy.shut();
        while shared.open.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let (cpu, started) = (server.cpu()?, Instant::now());
        proxy.open();
        shared.wait(watches).await;
        let took = started.elapsed();
        sleep(SETTLE).await;
        (format!("{:.2}", took.as_secs_f64()), format!("{:.2}", (server.cpu()? - cpu).as_secs_f64()))
    } else {
        ("–".to_owned(), "–".to_owned())
    };
    println!(
        "| {protocol:?} | {watches} | {open} | {:.2} | {:.1} | {:.1} | {quiet} | {busy} | {reconnected} | {cpu} |",
        connected.as_secs_f64(),
        memory.0,
        memory.1
    );
    Ok(())
}

impl Shared {
    /// Waits until so many watches are open; returns how many are.
    async fn wait(&self, watches: usize) -> usize {
        let deadline = Instant::now() + TIMEOUT;
        while self.open.load(Ordering::SeqCst) < watches && Instant::now() < deadline {
            sleep(Duration::from_millis(1)).await;
        }
        self.open.load(Ordering::SeqCst)
    }
}

/// A client as the program of a controller has it, over one of the protocols.
fn client(config: &Config, protocol: Protocol) -> Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_only();
    let connector = match protocol {
        Protocol::Http1 => tls.enable_http1().wrap_connector(tcp),
        Protocol::Http2 => tls.enable_http2().wrap_connector(tcp),
    };
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_only(protocol == Protocol::Http2)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(Client::new(service, "default"))
}

/// Creates the objects of the watches, and those of the large list.
async fn create(client: &Client, watches: usize) -> Result<()> {
    let small = (0..objects(watches))
        .map(|index| object(&format!("small-{index}"), &json!({ "watch": format!("w{}", index % watches) }), ""));
    let text = "text ".repeat(LARGE.1 / 5);
    let large = (0..LARGE.0).map(|index| object(&format!("large-{index}"), &json!({ "large": "yes" }), &text));
    stream::iter(small.chain(large))
        .map(Ok)
        .try_for_each_concurrent(32, |body| async move {
            match send(client, Method::POST, PATH, &body).await {
                // From the run before.
                Err(error) if format!("{error:#}").contains("AlreadyExists") => Ok(()),
                result => result.map(drop),
            }
        })
        .await
}

/// Returns the total number of objects in all watches.
fn objects(watches: usize) -> usize {
    (watches * OBJECTS).max(FEWEST)
}

fn object(name: &str, labels: &Value, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": labels }, "data": { "text": text }
    })
}

/// Keeps one watch open.
async fn follow(client: Client, watch: usize, shared: Arc<Shared>) {
    let mut version = String::new();
    loop {
        let _ = follow_once(&client, watch, &mut version, &shared).await;
        sleep(Duration::from_millis(50)).await;
    }
}

async fn follow_once(client: &Client, watch: usize, version: &mut String, shared: &Shared) -> Result<()> {
    let from = if version.is_empty() {
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned()
    } else {
        format!("resourceVersion={version}")
    };
    let path = format!("{PATH}?watch=true&allowWatchBookmarks=true&labelSelector=watch%3Dw{watch}&{from}");
    let response = client.send(Request::get(path).body(Body::empty())?).await?;
    ensure!(response.status().is_success(), "the server answers {}", response.status());
    let resumed = !version.is_empty();
    let mut open = resumed.then(|| Open::new(shared));
    let (mut body, mut buffer) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line)?;
            let metadata = &event["object"]["metadata"];
            version.clear();
            version.push_str(metadata["resourceVersion"].as_str().unwrap_or_default());
            if event["type"] == "BOOKMARK" && open.is_none() {
                open = Some(Open::new(shared));
            }
            let sent = metadata["annotations"][SENT].as_str().and_then(|sent| sent.parse::<u64>().ok());
            if let Some(sent) = sent.filter(|_| event["type"] == "MODIFIED") {
                let mut latencies = shared.latencies.lock();
                latencies.push(now().saturating_sub(sent) as f64 / 1e6);
            }
        }
    }
    Ok(())
}

/// Counts as an open watch.
struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Changes objects at a steady rate; returns p50 and p99 of the latency, in milliseconds.
async fn change(client: &Client, watches: usize, shared: &Shared) -> Result<String> {
    shared.latencies.lock().clear();
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    let mut writes = tokio::task::JoinSet::new();
    for turn in 0..CHANGES {
        ticks.tick().await;
        let (client, path) = (client.clone(), format!("{PATH}/small-{}", turn * 7_919 % objects(watches)));
        writes.spawn(async move {
            let body = json!({ "metadata": { "annotations": { SENT: now().to_string() } } });
            send(&client, Method::PATCH, &path, &body).await
        });
    }
    while let Some(written) = writes.join_next().await {
        written??;
    }
    sleep(Duration::from_secs(1)).await;
    let mut latencies = std::mem::take(&mut *shared.latencies.lock());
    latencies.sort_by(f64::total_cmp);
    let percentile =
        |percent: usize| latencies.get((latencies.len() * percent / 100).min(latencies.len().saturating_sub(1)));
    Ok(match (percentile(50), percentile(99)) {
        (Some(half), Some(most)) => format!("{half:.1} / {most:.1}"),
        _ => "–".to_owned(),
    })
}

/// Reads a list of 40 MB again and again.
async fn large_lists(client: Client) -> Result<()> {
    loop {
        let path = format!("{PATH}?labelSelector=large%3Dyes");
        client.send(Request::get(path).body(Body::empty())?).await?.into_body().collect().await?;
    }
}
