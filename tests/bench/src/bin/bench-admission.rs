//! Sends the same reviews to Kooper's server of webhooks and to controller-runtime's, as an API server does;
//! `tests/bench/webhooks` runs it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use clap::Parser;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use kooper_bench::{Kind, Program, Running, Usage, compare, document};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Number of reviewed objects.
const OBJECTS: usize = 100;

/// Connections of the paced load. Each sends one request at a time, as the API server does with HTTP/1.1.
const PACED: usize = 32;

/// Connections that send a request as soon as they have a response.
const SATURATING: usize = 16;

const ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[derive(Parser)]
struct Arguments {
    /// The folder with the Go programs.
    #[arg(long)]
    peers: PathBuf,
    /// The folder with ours.
    #[arg(long)]
    binaries: PathBuf,
    /// The paced rate.
    #[arg(long, default_value_t = 2_000)]
    rate: u32,
    /// Duration of each load.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Number of measurements of each program, in turn; the table has the medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// The costs of one load.
struct Load {
    per_second: f64,
    /// CPU time of the server for each request, in µs.
    cpu: f64,
    /// In ms.
    p50: f64,
    p99: f64,
}

/// The requests that are sent.
struct Scenario {
    name: &'static str,
    path: &'static str,
    bodies: Arc<Vec<Bytes>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let folder = std::env::temp_dir().join(format!("bench-admission-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure(&arguments, &folder).await;
    std::fs::remove_dir_all(&folder)?;
    measured
}

async fn measure(arguments: &Arguments, folder: &Path) -> Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(folder.join("tls.crt"), made.cert.pem())?;
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem())?;
    let connector = connector(made.cert.der())?;
    let programs = [
        Program { name: "controller-runtime", command: arguments.peers.join("webhook") },
        Program { name: "Kooper", command: arguments.binaries.join("bench-webhook") },
    ];
    let scenarios = [
        Scenario {
            name: "validate an update",
            path: "/validate-bench-kooper-dev-v1-widget/check",
            bodies: reviews("UPDATE"),
        },
        Scenario {
            name: "fill in a field",
            path: "/mutate-bench-kooper-dev-v1-widget/fill",
            bodies: reviews("CREATE"),
        },
    ];
    let rate = arguments.rate;
    for scenario in &scenarios {
        let size = scenario.bodies.iter().map(Bytes::len).sum::<usize>() / OBJECTS;
        let title = format!("{}, {size} bytes", scenario.name);
        let paced = format!("CPU at {rate}/s, µs");
        let columns = [
            (&*paced, 0),
            ("p50, ms", 2),
            ("p99, ms", 2),
            ("requests/s, saturated", 0),
            ("CPU, saturated, µs", 0),
            ("peak RSS, MB", 1),
        ];
        let measure = async |program: &Program| one(program, folder, &connector, scenario, arguments).await;
        compare(&title, columns, &programs, arguments.rounds, measure).await?;
    }
    Ok(())
}

fn connector(root: &CertificateDer<'static>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone())?;
    let config =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions()?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

/// The bodies of an API server for widgets as they are stored, of which a client has written all but the backup.
fn reviews(operation: &str) -> Arc<Vec<Bytes>> {
    let review = |index: usize| {
        let mut object = document::object(Kind::Crs, index, 0);
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("backup");
        }
        object["status"] = document::status(Kind::Crs, index)["status"].take();
        let owned = json!({"f:metadata": fields(&object["metadata"]), "f:spec": fields(&object["spec"])});
        object["metadata"]["managedFields"] = json!([{
            "manager": "kubectl", "operation": "Apply", "apiVersion": "bench.kooper.dev/v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned,
        }]);
        object["metadata"]["uid"] = json!(format!("00000000-0000-0000-0000-{index:012}"));
        let old = if operation == "UPDATE" { object.clone() } else { Value::Null };
        let kind = json!({"group": "bench.kooper.dev", "version": "v1", "kind": "Widget"});
        let resource = json!({"group": "bench.kooper.dev", "version": "v1", "resource": "widgets"});
        let body = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": format!("11111111-0000-0000-0000-{index:012}"), "kind": kind, "resource": resource,
            "requestKind": kind, "requestResource": resource, "name": document::name(index),
            "namespace": document::namespace(index), "operation": operation,
            "userInfo": {"username": "jane", "uid": "1", "groups": ["system:authenticated"]},
            "object": object, "oldObject": old, "dryRun": false,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
        }});
        Bytes::from(body.to_string())
    };
    Arc::new((0..OBJECTS).map(review).collect())
}

/// The fields of a value, as managed fields name them.
fn fields(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (format!("f:{key}"), fields(value))).collect(),
        _ => json!({}),
    }
}

/// The columns of the table for one program in one round.
async fn one(
    program: &Program,
    folder: &Path,
    connector: &TlsConnector,
    scenario: &Scenario,
    arguments: &Arguments,
) -> Result<[f64; 6]> {
    let port = TcpListener::bind((ADDRESS, 0))?.local_addr()?.port();
    let mut command = Command::new(&program.command);
    command.args(["--certificates".as_ref(), folder.as_os_str()]).args(["--port", &port.to_string()]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let running = Running(child.with_context(|| program.command.display().to_string())?);
    let server = Server { address: (ADDRESS, port).into(), connector: connector.clone(), path: scenario.path };
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.connect().await.is_err() {
        ensure!(Instant::now() < deadline, "it does not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let usage = Usage::of(running.0.id());
    let (server, within) = (Arc::new(server), Duration::from_secs(arguments.seconds.into()));
    // The first requests are those of another program than the later ones.
    load(&server, &scenario.bodies, usage, SATURATING, None, within / 5).await?;
    let paced = load(&server, &scenario.bodies, usage, PACED, Some(arguments.rate), within).await?;
    let saturated = load(&server, &scenario.bodies, usage, SATURATING, None, within).await?;
    Ok([paced.cpu, paced.p50, paced.p99, saturated.per_second, saturated.cpu, usage.peak()?])
}

struct Server {
    address: SocketAddr,
    connector: TlsConnector,
    path: &'static str,
}

impl Server {
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.connector.connect(ServerName::try_from("localhost")?, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn review(&self, connection: &mut SendRequest<Full<Bytes>>, body: Bytes) -> Result<()> {
        let request = Request::post(format!("{}?timeout=10s", self.path)).header(header::HOST, "localhost");
        let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(body))?;
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        ensure!(response.status().is_success(), "{}", response.status());
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(body.windows(14).any(|part| part == b"\"allowed\":true"), "it is denied: {body:?}");
        Ok(())
    }
}

/// Sends reviews for a while: at a rate, or as fast as the connections can.
async fn load(
    server: &Arc<Server>,
    bodies: &Arc<Vec<Bytes>>,
    usage: Usage,
    connections: usize,
    rate: Option<u32>,
    within: Duration,
) -> Result<Load> {
    let mut clients = JoinSet::new();
    let mut connected = Vec::new();
    for _ in 0..connections {
        connected.push(server.connect().await?);
    }
    let (cpu, begun) = (usage.cpu()?, Instant::now());
    for (number, mut connection) in connected.into_iter().enumerate() {
        let (server, bodies) = (Arc::clone(server), Arc::clone(bodies));
        clients.spawn(async move {
            let mut latencies = Vec::new();
            let mut turn = number;
            loop {
                // A paced request waits for its connection, and this time counts; that the timer is late does not.
                let mut sent = Instant::now();
                if let Some(rate) = rate {
                    let due = begun + Duration::from_secs(1) * u32::try_from(turn)? / rate;
                    tokio::time::sleep_until(due.into()).await;
                    sent = if due > sent { Instant::now() } else { due };
                }
                if sent >= begun + within {
                    return Ok::<_, anyhow::Error>(latencies);
                }
                server.review(&mut connection, bodies[turn % bodies.len()].clone()).await?;
                latencies.push(sent.elapsed());
                turn += connections;
            }
        });
    }
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.extend(client??);
    }
    let (cpu, elapsed) = (usage.cpu()? - cpu, begun.elapsed());
    latencies.sort_unstable();
    let count = latencies.len();
    ensure!(count > 0, "nothing was sent");
    let millis = |at: usize| latencies[(count * at / 1000).min(count - 1)].as_secs_f64() * 1e3;
    let requests = f64::from(u32::try_from(count)?);
    Ok(Load {
        per_second: requests / elapsed.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / requests,
        p50: millis(500),
        p99: millis(990),
    })
}
