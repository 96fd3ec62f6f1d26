//! Measures the embedded API server, alone and beside a real one; `tests/bench/server` runs it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use futures_util::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kooper_apiserver::ApiServer;
use kooper_bench::{Usage, client, median};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// Requests in flight at the same time.
const CONCURRENCY: usize = 8;

/// The namespace of what is written.
const NAMESPACE: &str = "default";

/// The watches that each change is sent to.
const WATCHERS: usize = 100;

const JSON: &str = "application/json";

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Prints how long servers take to start, in ms, and the memory of an idle one, in MB: a figure a line.
    Start,
    /// Serves until stdin is closed; the kubeconfig is written to this file.
    Serve { kubeconfig: PathBuf },
    /// Creates pods, watches and lists them, and prints the rows of a table.
    Pods {
        kubeconfig: PathBuf,
        pid: u32,
        #[arg(long, default_value_t = 20_000)]
        pods: usize,
    },
    /// Sends the same requests to both servers in turn, and prints the rows of a table.
    Rates {
        /// The kubeconfig of the embedded server.
        embedded: PathBuf,
        /// Its process.
        pid: u32,
        /// The kubeconfig of the real server.
        real: PathBuf,
        /// The processes of kube-apiserver and etcd.
        pids: Vec<u32>,
        /// The requests of each round.
        #[arg(long, default_value_t = 1000)]
        requests: usize,
        /// Number of measurements of each request on each server.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        // As in a test.
        Task::Start => Builder::new_current_thread().enable_all().build()?.block_on(start()),
        Task::Serve { kubeconfig } => threads()?.block_on(serve(kubeconfig)),
        Task::Pods { kubeconfig, pid, pods } => threads()?.block_on(many_pods(&kubeconfig, pid, pods)),
        Task::Rates { embedded, pid, real, pids, requests, rounds } => threads()?.block_on(async {
            let embedded = Server { client: client(&embedded).await?, pids: vec![pid] };
            let real = Server { client: client(&real).await?, pids };
            rates([embedded, real], requests, rounds).await
        }),
    }
}

fn threads() -> std::io::Result<tokio::runtime::Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

async fn start() -> Result<()> {
    async fn ready(servers: &mut Vec<ApiServer>) -> Result<Duration> {
        let begun = Instant::now();
        let server = ApiServer::start().await?;
        Api::<Namespace>::all(server.client()).get(NAMESPACE).await?;
        servers.push(server);
        Ok(begun.elapsed())
    }

    const MORE: u32 = 100;
    let mut servers = Vec::new();
    let first = ready(&mut servers).await?;
    let usage = Usage::of(std::process::id());
    let before = usage.resident()?;
    let mut times = Vec::new();
    for _ in 0..MORE {
        times.push(millis(ready(&mut servers).await?));
    }
    let each = (usage.resident()? - before) / f64::from(MORE);
    println!("{:.1}\n{:.1}\n{before:.1}\n{each:.2}", millis(first), median(times));
    Ok(())
}

async fn serve(kubeconfig: PathBuf) -> Result<()> {
    let server = ApiServer::start().await?;
    // The file is complete from the moment at which it exists.
    let new = kubeconfig.with_extension("new");
    std::fs::write(&new, server.kubeconfig())?;
    std::fs::rename(&new, &kubeconfig)?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    server.shutdown().await;
    Ok(())
}

fn request(method: &str, path: &str, content: &str, body: &Value) -> Result<Request<Vec<u8>>> {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    Ok(Request::builder().method(method).uri(path).header("content-type", content).body(body)?)
}

fn get(path: &str) -> Result<Request<Vec<u8>>> {
    request("GET", path, JSON, &Value::Null)
}

/// Sends so many requests, some at the same time, and returns how long that took.
async fn send(client: &Client, count: usize, make: impl Fn(usize) -> Result<Request<Vec<u8>>>) -> Result<Duration> {
    let begun = Instant::now();
    futures_util::stream::iter(0..count)
        .map(|number| Ok::<_, anyhow::Error>((client.clone(), make(number)?)))
        .try_for_each_concurrent(CONCURRENCY, |(client, request)| async move {
            client.request_text(request).await?;
            Ok(())
        })
        .await?;
    Ok(begun.elapsed())
}

/// Watches of one path that count their events together.
struct Watches {
    tasks: JoinSet<Result<()>>,
    events: Arc<AtomicUsize>,
}

impl Watches {
    fn open(client: &Client, path: &str) -> Self {
        let events = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..WATCHERS {
            let (client, path, events) = (client.clone(), path.to_owned(), events.clone());
            tasks.spawn(async move {
                let mut body = client.request_stream(get(&path)?).await?;
                let mut line = Vec::new();
                while body.read_until(b'\n', &mut line).await? > 0 {
                    ensure!(!line.starts_with(br#"{"type":"ERROR""#), "{}", String::from_utf8_lossy(&line));
                    events.fetch_add(1, Ordering::Relaxed);
                    line.clear();
                }
                anyhow::bail!("a watch ended")
            });
        }
        Self { tasks, events }
    }

    /// Waits until the watches have had so many events.
    async fn have(&mut self, expected: usize) -> Result<()> {
        while self.events.load(Ordering::Relaxed) < expected {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => ended??,
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
        Ok(())
    }
}

/// A server that is measured.
struct Server {
    client: Client,
    pids: Vec<u32>,
}

/// Measurements of one round.
#[derive(Clone, Copy)]
struct Round {
    /// Requests, objects or events.
    count: usize,
    wall: Duration,
    cpu: Duration,
}

/// The requests that are compared.
#[derive(Clone, Copy)]
enum Operation {
    Create,
    Patch,
    Apply,
    Get,
    List,
    Watch,
}

impl Operation {
    const ALL: [Self; 6] = [Self::Create, Self::Patch, Self::Apply, Self::Get, Self::List, Self::Watch];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Patch => "merge patch",
            Self::Apply => "server-side apply",
            Self::Get => "get",
            Self::List => "list, in objects",
            Self::Watch => "watch, in events to 100 watchers",
        }
    }
}

fn maps(rest: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps{rest}")
}

fn name(round: usize, number: usize) -> String {
    format!("rate-{round:02}-{number:05}")
}

fn config_map(name: &str) -> Value {
    let data = json!({"text": "x".repeat(500), "number": name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn patch(name: &str, value: &str) -> Result<Request<Vec<u8>>> {
    let body = json!({"data": {"number": value}});
    request("PATCH", &maps(&format!("/{name}?fieldManager=bench")), "application/merge-patch+json", &body)
}

impl Server {
    async fn measure(&self, operation: Operation, round: usize, requests: usize) -> Result<Round> {
        let client = &self.client;
        if let Operation::Watch = operation {
            return self.measure_watch(round, requests).await;
        }
        let spent = cpu(&self.pids)?;
        let (count, wall) = match operation {
            Operation::Create => {
                let make = |number| request("POST", &maps(""), JSON, &config_map(&name(round, number)));
                (requests, send(client, requests, make).await?)
            }
            Operation::Patch => {
                (requests, send(client, requests, |number| patch(&name(round, number), "patched")).await?)
            }
            Operation::Apply => {
                let make = |number| {
                    let mut body = config_map(&name(round, number));
                    body["data"] = json!({"applied": "yes"});
                    let path = maps(&format!("/{}?fieldManager=other", name(round, number)));
                    request("PATCH", &path, "application/apply-patch+yaml", &body)
                };
                (requests, send(client, requests, make).await?)
            }
            Operation::Get => {
                let make = |number| get(&maps(&format!("/{}", name(round, number))));
                (requests, send(client, requests, make).await?)
            }
            Operation::List | Operation::Watch => {
                const LISTS: usize = 10;
                let list: Value = client.request(get(&maps(""))?).await?;
                let objects = list["items"].as_array().map_or(0, Vec::len);
                (LISTS * objects, send(client, LISTS, |_| get(&maps(""))).await?)
            }
        };
        Ok(Round { count, wall, cpu: cpu(&self.pids)? - spent })
    }

    async fn measure_watch(&self, round: usize, requests: usize) -> Result<Round> {
        const CHANGES: usize = 200;
        let list: Value = self.client.request(get(&maps("?limit=1"))?).await?;
        let version = list["metadata"]["resourceVersion"].as_str().context("a list has a version")?;
        let mut watches = Watches::open(&self.client, &maps(&format!("?watch=true&resourceVersion={version}")));
        // All watches are open when one change has reached them.
        send(&self.client, 1, |number| patch(&name(round, number), "opened")).await?;
        watches.have(WATCHERS).await?;
        let (spent, begun) = (cpu(&self.pids)?, Instant::now());
        // Each of them is a change: no two in a row are the same.
        let touch = |number: usize| patch(&name(round, number % requests), &format!("watched {number}"));
        send(&self.client, CHANGES, touch).await?;
        watches.have(WATCHERS * (CHANGES + 1)).await?;
        Ok(Round { count: WATCHERS * CHANGES, wall: begun.elapsed(), cpu: cpu(&self.pids)? - spent })
    }
}

async fn rates(servers: [Server; 2], requests: usize, rounds: usize) -> Result<()> {
    for server in &servers {
        // The connections are open, and the code is in memory.
        let path = format!("/api/v1/namespaces/{NAMESPACE}");
        send(&server.client, 200, |_| get(&path)).await?;
    }
    for operation in Operation::ALL {
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            // A slow moment of the machine hits both.
            for index in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                measured[index].push(servers[index].measure(operation, round, requests).await?);
            }
        }
        let [embedded, real] = measured.map(|rounds| {
            let count: usize = rounds.iter().map(|round| round.count).sum();
            let cpu: Duration = rounds.iter().map(|round| round.cpu).sum();
            let rate = median(rounds.iter().map(|round| round.count as f64 / round.wall.as_secs_f64()));
            (rate, cpu.as_secs_f64() * 1e6 / count as f64)
        });
        println!(
            "| {} | {:.0} | {:.0} | {:.2}× | {:.1} | {:.1} | {:.2}× |",
            operation.name(),
            embedded.0,
            real.0,
            embedded.0 / real.0,
            embedded.1,
            real.1,
            embedded.1 / real.1
        );
    }
    Ok(())
}

/// A pod of some 7 KB, as it is stored.
fn pod(number: usize) -> Value {
    let hash = |index: usize| (number * 131 + index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let env: Vec<_> = (0..40)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("{:032x}", hash(index))}))
        .collect();
    let container = json!({
        "name": "app", "image": "registry.example.com/shop/app:1.2.3", "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number:06}"), "labels": {"app": format!("app-{}", number % 400)}},
        "spec": {"containers": [container]},
    })
}

async fn many_pods(kubeconfig: &Path, pid: u32, pods: usize) -> Result<()> {
    let (client, usage) = (client(kubeconfig).await?, Usage::of(pid));
    let path = |rest: &str| format!("/api/v1/namespaces/{NAMESPACE}/pods{rest}");
    let before = usage.resident()?;
    let mut watches = Watches::open(&client, &path("?watch=true&resourceVersion=0"));
    let begun = Instant::now();
    send(&client, pods, |number| request("POST", &path(""), JSON, &pod(number))).await?;
    let created = begun.elapsed();
    watches.have(pods * WATCHERS).await?;
    let delivered = begun.elapsed();
    let begun = Instant::now();
    let list = client.request_text(get(&path(""))?).await?;
    println!("| a pod in a list, bytes | {} |", list.len() / pods);
    println!("| created by {CONCURRENCY} clients, s | {:.1} |", created.as_secs_f64());
    println!("| delivered to {WATCHERS} watchers, s | {:.1} |", delivered.as_secs_f64());
    println!("| listed, s | {:.2} |", begun.elapsed().as_secs_f64());
    println!("| CPU of the server, s | {:.1} |", usage.cpu()?.as_secs_f64());
    println!("| memory before, MB | {before:.0} |");
    println!("| memory after, MB | {:.0} |", usage.resident()?);
    println!("| peak of the memory, MB | {:.0} |", usage.peak()?);
    Ok(())
}

/// The CPU time that processes have spent.
fn cpu(pids: &[u32]) -> Result<Duration> {
    pids.iter().map(|pid| Usage::of(*pid).cpu()).sum()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
