//! Declared children: the time of a reconciliation that changes nothing, and the steady state beside
//! controller-runtime's; `tests/bench/children` runs it.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use kooper::extract::Context;
use kooper::handler::Handler;
use kooper::plan::Plan;
use kooper::testing::Cluster;
use kooper::{Action, BoxError, KindExt as _};
use kooper_bench::{Program, Running, Usage, Wiki, client, wiki_children};
use kooper_tests::control_plane::ControlPlane;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Maximum number of concurrent requests of the driver.
const AT_ONCE: usize = 8;

/// The time after which the operator has seen its last writes.
const QUIET: Duration = Duration::from_secs(2);

/// The time without a patch after which an upgrade is complete.
const UPGRADED: Duration = Duration::from_secs(10);

/// The reconciliations that are not measured, because they still decode and allocate what later ones find.
const WARM_UP: u32 = 1_000;

#[derive(Parser)]
enum Arguments {
    /// Measures reconciliations of one object in this process.
    Pass {
        /// The number of reconciliations.
        #[arg(long, default_value_t = 20_000)]
        count: u32,
    },
    /// Measures the steady state of this operator and of controller-runtime's on a real API server.
    Compare(Comparing),
    /// Measures the upgrade of an operator that applies its children by hand, a restart, and the rollback.
    Upgrade {
        /// The folder with bench-wiki.
        #[arg(long)]
        binaries: PathBuf,
        /// The number of wikis, each with six children.
        #[arg(long, default_value_t = 1_000)]
        owners: usize,
    },
}

#[derive(clap::Args)]
struct Comparing {
    /// The folder with the Go programs.
    #[arg(long)]
    peers: PathBuf,
    /// The folder with bench-wiki.
    #[arg(long)]
    binaries: PathBuf,
    /// The number of wikis, each with six children.
    #[arg(long, default_value_t = 1_000)]
    owners: usize,
    /// The time between two reconciliations of each of them, in seconds.
    #[arg(long, default_value_t = 30)]
    resync: u32,
    /// The time for which the steady state is measured, in seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// The number of measurements of each program, in turn; the table has the medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

fn main() -> Result<()> {
    match Arguments::parse() {
        Arguments::Pass { count } => tokio::runtime::Runtime::new()?.block_on(pass(count)),
        Arguments::Compare(comparing) => tokio::runtime::Runtime::new()?.block_on(compare(&comparing)),
        Arguments::Upgrade { binaries, owners } => {
            tokio::runtime::Runtime::new()?.block_on(upgrade(&binaries.join("bench-wiki"), owners))
        }
    }
}

/// The marker of handlers that keep something.
struct Kept<A>(PhantomData<A>);

/// A handler that keeps the context of its last call.
struct Keeping<H> {
    handler: H,
    kept: Arc<Mutex<Option<Context<Wiki, ()>>>>,
}

impl<H: Handler<Wiki, (), A>, A> Handler<Wiki, (), Kept<A>> for Keeping<H> {
    fn plan(plan: &mut Plan) {
        H::plan(plan);
    }

    fn handle(&self, context: Context<Wiki, ()>) -> BoxFuture<'static, Result<Action, BoxError>> {
        *self.kept.lock() = Some(context.clone());
        self.handler.handle(context)
    }
}

async fn pass(count: u32) -> Result<()> {
    let boxed = |error: BoxError| anyhow::anyhow!("{error}");
    let cluster = Cluster::start().await.map_err(boxed)?.with_timeout(Duration::from_secs(60));
    let (children, kept) = (wiki_children(), Arc::default());
    let handler = Keeping { handler: children.handler(async || {}), kept: Arc::clone(&kept) };
    let controller = Wiki::controller("wikis").resync(None).handler(handler).build()?;
    cluster.install_crd(&Wiki::crd()).await?;
    let running = cluster.run([controller]).await.map_err(boxed)?;
    let wiki = cluster.create(&Wiki::numbered(0)).await?;
    cluster.wait(&wiki, Wiki::is_ready).await;
    // The events of the last writes are handled. Any that are not fail the check below.
    tokio::time::sleep(QUIET).await;

    let context = kept.lock().clone().context("no call")?;
    let handler = children.handler(async || {});
    let before = cluster.requests().len();
    for _ in 0..WARM_UP {
        let _: Action = handler.handle(context.clone()).await.map_err(boxed)?;
    }
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        let _: Action = handler.handle(context.clone()).await.map_err(boxed)?;
        times.push(begun.elapsed());
    }
    ensure!(cluster.requests().len() == before, "they are not without changes: {:?}", cluster.requests());
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
    println!("| a reconciliation of six children that changes nothing | µs |\n|---|--:|");
    println!("| median | {:.1} |\n| p90 | {:.1} |\n| p99 | {:.1} |", at(50), at(90), at(99));
    running.stop().await.map_err(boxed)
}

async fn compare(comparing: &Comparing) -> Result<()> {
    let programs = [
        Program { name: "controller-runtime", command: comparing.peers.join("children") },
        Program { name: "Kooper", command: comparing.binaries.join("bench-wiki") },
    ];
    let Comparing { owners, resync, .. } = comparing;
    let title = format!("{owners} owners with six children each, reconciled every {resync} s");
    let columns = [
        ("start, s", 1),
        ("CPU of the start, s", 1),
        ("CPU of a reconciliation, µs", 0),
        ("requests, steady", 0),
        ("RSS, MB", 1),
        ("peak RSS, MB", 1),
    ];
    let measure = async |program: &Program| one(program, comparing).await;
    kooper_bench::compare(&title, columns, &programs, comparing.rounds, measure).await
}

/// An API server with wikis that have no children yet.
async fn plane_with_wikis(owners: usize) -> Result<(ControlPlane, Client, Api<Wiki>)> {
    let plane = ControlPlane::start_with(&["--without-controller-manager"]).context("no control plane")?;
    let client = client(plane.kubeconfig()).await?;
    plane.apply([serde_json::to_value(Wiki::crd())?]);
    plane.must(&["wait", "--for=condition=Established", "crd/wikis.bench.kooper.dev"]);
    let wikis: Api<Wiki> = Api::namespaced(client.clone(), "default");
    stream::iter(0..owners)
        .map(|number| {
            let wikis = wikis.clone();
            async move { wikis.create(&PostParams::default(), &Wiki::numbered(number)).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok((plane, client, wikis))
}

/// The columns of the table for one program in one round. It gets an API server of its own, and makes its children there.
async fn one(program: &Program, comparing: &Comparing) -> Result<[f64; 6]> {
    let (plane, client, wikis) = plane_with_wikis(comparing.owners).await?;

    let begun = Instant::now();
    let mut command = Command::new(&program.command);
    command.arg("--kubeconfig").arg(plane.kubeconfig());
    command.arg("--resync").arg(format!("{}s", comparing.resync));
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let running = Running(child.with_context(|| program.command.display().to_string())?);
    let usage = Usage::of(running.0.id());
    while !all_ready(&wikis, comparing.owners).await? {
        ensure!(begun.elapsed() < Duration::from_secs(900), "the wikis are not ready");
        let workloads = (Api::namespaced(client.clone(), "default"), Api::namespaced(client.clone(), "default"));
        run_workloads(&workloads.0, &workloads.1).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (start, start_cpu) = (begun.elapsed().as_secs_f64(), usage.cpu()?.as_secs_f64());

    // The last changes are seen, and each object is reconciled once more.
    tokio::time::sleep(Duration::from_secs(2 * u64::from(comparing.resync))).await;
    let (requests, cpu) = (plane.audit_log("").len(), usage.cpu()?);
    tokio::time::sleep(Duration::from_secs(comparing.seconds.into())).await;
    let (cpu, resident, peak) = (usage.cpu()? - cpu, usage.resident()?, usage.peak()?);
    let requests = u32::try_from(plane.audit_log("").len() - requests)?;
    let reconciliations =
        f64::from(u32::try_from(comparing.owners)?) * f64::from(comparing.seconds) / f64::from(comparing.resync);
    let cpu = cpu.as_secs_f64() * 1e6 / reconciliations;
    Ok([start, start_cpu, cpu, requests.into(), resident, peak])
}

/// The versions of one operator, one after the other.
async fn upgrade(program: &Path, owners: usize) -> Result<()> {
    let (plane, ..) = plane_with_wikis(owners).await?;
    println!("| {owners} owners with six children each | patches of children | s | CPU, s |\n|---|--:|--:|--:|");
    let versions = [
        ("by hand: the children are created", true),
        ("declared: the upgrade", false),
        ("declared: a restart", false),
        ("by hand: the rollback", true),
    ];
    for (version, is_by_hand) in versions {
        let (before, begun) = (patches_of_children(&plane), Instant::now());
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(plane.kubeconfig()).args(["--resync", "86400s"]);
        command.args(is_by_hand.then_some("--by-hand"));
        let running = Running(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?);
        let usage = Usage::of(running.0.id());
        let (mut count, mut last) = (before, Instant::now());
        while last.elapsed() < UPGRADED {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = patches_of_children(&plane);
            if now != count {
                (count, last) = (now, Instant::now());
            }
        }
        let seconds = (last - begun).as_secs_f64();
        println!("| {version} | {} | {seconds:.1} | {:.1} |", count - before, usage.cpu()?.as_secs_f64());
    }
    Ok(())
}

fn patches_of_children(plane: &ControlPlane) -> usize {
    let is_child = |event: &&Value| {
        let object = &event["objectRef"];
        event["verb"] == "patch" && object["resource"] != "wikis" && object.get("subresource").is_none()
    };
    plane.audit_log("").iter().filter(is_child).count()
}

async fn all_ready(wikis: &Api<Wiki>, count: usize) -> Result<bool> {
    let list = wikis.list(&ListParams::default()).await?;
    Ok(list.iter().filter(|wiki| wiki.is_ready()).count() == count)
}

/// Does what the controllers of StatefulSets and Jobs, and their pods, would.
async fn run_workloads(databases: &Api<StatefulSet>, migrations: &Api<Job>) -> Result<()> {
    let new = databases
        .list(&ListParams::default())
        .await?
        .into_iter()
        .filter(|one| one.status.as_ref().and_then(|status| status.observed_generation) != one.metadata.generation);
    let ready = |one: &StatefulSet| {
        json!({"status": {
            "observedGeneration": one.metadata.generation, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
            "availableReplicas": 1, "currentReplicas": 1, "currentRevision": "a", "updateRevision": "a",
        }})
    };
    let new: Vec<_> = new.map(|one| (one.name_any(), ready(&one))).collect();
    patch_statuses(databases, new).await?;
    let holds = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"});
    let done = json!({"status": {
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "succeeded": 1,
        "conditions": [holds("SuccessCriteriaMet"), holds("Complete")],
    }});
    let new = migrations.list(&ListParams::default()).await?.into_iter();
    let new = new.filter(|one| one.status.as_ref().is_none_or(|status| status.completion_time.is_none()));
    patch_statuses(migrations, new.map(|one| (one.name_any(), done.clone())).collect()).await
}

async fn patch_statuses<K>(api: &Api<K>, statuses: Vec<(String, Value)>) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    stream::iter(statuses)
        .map(|(name, status)| async move {
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    Ok(())
}
