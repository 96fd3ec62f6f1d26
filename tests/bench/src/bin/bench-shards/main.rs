//! The memory and the CPU time of replicas that share the objects of a controller, beside those of one process without
//! shards, on a real API server with and without shard selectors.

mod objects;
mod replica;
mod times;

use std::fmt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use kooper_bench::{Etcd, Proxy, Usage};
use kooper_tests::control_plane::ControlPlane;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::objects::Objects;
use crate::replica::{Call, Counts, Line};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measures, and prints a table.
    Measure {
        /// Numbers of owners. Each has a child.
        #[arg(long, value_delimiter = ',', default_values_t = [20_000, 100_000])]
        owners: Vec<usize>,
        /// The most replicas.
        #[arg(long, default_value_t = 3)]
        replicas: usize,
        /// What the API server does with shard selectors.
        #[arg(long, value_delimiter = ',', default_values = ["ignored", "applied"])]
        selector: Vec<Selector>,
        /// Changes of owners for which the CPU time is measured.
        #[arg(long, default_value_t = 2_000)]
        changes: usize,
        /// How often each number of replicas is measured; the table has the medians.
        #[arg(long, default_value_t = 1)]
        rounds: usize,
    },
    /// Measures how long shards are without a call, and what replicas receive, and prints a table.
    Times {
        /// Number of owners. Each has a child.
        #[arg(long, default_value_t = 2_000)]
        owners: usize,
        /// How often a replica is replaced.
        #[arg(long, default_value_t = 10)]
        rounds: usize,
        /// What the API server does with shard selectors.
        #[arg(long, value_delimiter = ',', default_values = ["ignored", "applied"])]
        selector: Vec<Selector>,
    },
    /// Runs the controller until the standard input ends.
    Replica(replica::Arguments),
}

/// What an API server does with shard selectors.
#[derive(Clone, Copy, ValueEnum)]
enum Selector {
    Ignored,
    Applied,
}

impl Selector {
    /// Its feature gate, and the cell of the table.
    fn gate(self) -> (&'static str, &'static str) {
        match self {
            Self::Ignored => ("ShardedListAndWatch=false", "ignored"),
            Self::Applied => ("ShardedListAndWatch=true", "applied"),
        }
    }
}

/// Nothing changes for so long.
const QUIET: Duration = Duration::from_secs(3);

/// The longest wait for a condition.
const TIMEOUT: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    match Arguments::parse().what {
        What::Measure { owners, replicas, selector, changes, rounds } => {
            println!(
                "MB are 10⁶ bytes. Memory is that of the largest replica. CPU until handled is that of the replica \
                 that was started last, and CPU per 1 000 changes the mean of the replicas.\n"
            );
            println!(
                "| owners | replicas | shards | selector | resident, MB | of one without shards | stores, MB | of one | \
                 CPU until handled, s | of one | CPU per 1 000 changes, ms | of one |\n\
                 |--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
            );
            owners.into_iter().try_for_each(|owners| measure(owners, replicas, &selector, changes, rounds))
        }
        What::Times { owners, rounds, selector } => times::measure(owners, rounds, &selector),
        What::Replica(arguments) => Runtime::new()?.block_on(replica::run(arguments)),
    }
}

fn measure(owners: usize, most: usize, selectors: &[Selector], changes: usize, rounds: usize) -> Result<()> {
    let (without, _) = Selector::Ignored.gate();
    let (cluster, runtime, objects) = prepare(without, owners)?;
    let run = Run { cluster: &cluster, runtime: &runtime, objects: &objects, changes, rounds };
    let [one, sharded] = run.medians([(1, false), (1, true)])?;
    println!("| {owners} | 1 | no | | {} |", one.beside(&one));
    println!("| {owners} | 1 | yes | | {} |", sharded.beside(&one));
    let mut set = without;
    for (gate, selector) in selectors.iter().map(|selector| selector.gate()) {
        if gate != set {
            cluster.stop_apiserver();
            cluster.start_apiserver_with(&["--feature-gates", gate]);
            set = gate;
        }
        for replicas in 2..=most {
            let [several] = run.medians([(replicas, true)])?;
            println!("| {owners} | {replicas} | yes | {selector} | {} |", several.beside(&one));
        }
    }
    Ok(())
}

/// Starts an API server with a feature gate and objects, and a runtime for the requests to it.
fn prepare(gate: &str, owners: usize) -> Result<(ControlPlane, Runtime, Objects)> {
    let cluster = ControlPlane::start_with(&["--without-controller-manager", "--feature-gates", gate]);
    let cluster = cluster.context("there is no control plane")?;
    let runtime = Runtime::new()?;
    let objects = runtime.block_on(async {
        let client = kooper_bench::client(cluster.kubeconfig()).await?;
        Objects::create(&client, Etcd::new(&cluster.dir().join("etcd.sock")), owners).await
    })?;
    Ok((cluster, runtime, objects))
}

/// The time in microseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// Returns `true` if the replicas own all shards, none of them more than its part.
fn are_balanced(counts: &[Counts]) -> bool {
    let fair = replica::SHARDS.div_ceil(counts.len());
    counts.iter().all(|one| one.shards <= fair) && counts.iter().map(|one| one.shards).sum::<usize>() == replica::SHARDS
}

/// What all measurements with the same objects have in common.
struct Run<'a> {
    cluster: &'a ControlPlane,
    runtime: &'a Runtime,
    objects: &'a Objects,
    changes: usize,
    rounds: usize,
}

impl Run<'_> {
    /// The medians of numbers of replicas, with or without shards, which take turns.
    fn medians<const N: usize>(&self, subjects: [(usize, bool); N]) -> Result<[Cost; N]> {
        let mut costs: [Vec<Cost>; N] = std::array::from_fn(|_| Vec::new());
        for _ in 0..self.rounds {
            for ((count, shards), costs) in subjects.into_iter().zip(&mut costs) {
                costs.push(self.replicas(count, shards)?);
            }
        }
        let median = |costs: &[Cost], of: fn(&Cost) -> f64| {
            let mut all: Vec<_> = costs.iter().map(of).collect();
            all.sort_unstable_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Ok(costs.map(|costs| Cost {
            resident: median(&costs, |cost| cost.resident),
            stores: median(&costs, |cost| cost.stores),
            cpu: median(&costs, |cost| cost.cpu),
            changes: median(&costs, |cost| cost.changes),
        }))
    }

    /// Starts so many replicas, and measures them until all objects are handled, and while some change.
    ///
    /// The first of several replicas begins with all shards, and a process keeps the memory that it needed once. So they
    /// are replaced one after another, as a roll-out does it, and their successors are measured.
    fn replicas(&self, count: usize, shards: bool) -> Result<Cost> {
        let start = || Replica::start(self.cluster.kubeconfig(), shards, None);
        let mut replicas = (0..count).map(|_| start()).collect::<Result<Vec<_>>>()?;
        self.complete(&replicas, shards)?;
        let replaced = if count > 1 { count } else { 0 };
        for _ in 0..replaced {
            replicas.push(start()?);
            self.complete(&replicas, shards)?;
            replicas.remove(0).stop()?;
            self.complete(&replicas, shards)?;
        }
        let mean = |of: fn(&Replica) -> Result<Duration>| -> Result<f64> {
            let sum = replicas.iter().map(of).sum::<Result<Duration>>()?;
            Ok(sum.as_secs_f64() / count as f64)
        };
        let sizes = replicas.iter().map(|replica| replica.usage.resident()).collect::<Result<Vec<_>>>()?;
        let resident = sizes.into_iter().fold(0.0, f64::max);
        let stores = replicas.iter().map(|replica| replica.counts().bytes).max().unwrap_or_default() as f64 / 1e6;
        let last = replicas.last().context("at least one replica")?.usage.cpu()?.as_secs_f64();
        let cpu = mean(|replica| replica.usage.cpu())?;
        let calls = || replicas.iter().map(|replica| replica.counts().calls).sum::<usize>();
        let before = calls();
        self.runtime.block_on(self.objects.change(self.changes))?;
        quiet(&replicas, |counts| counts.iter().map(|one| one.calls).sum::<usize>() >= before + self.changes)?;
        let changes = (mean(|replica| replica.usage.cpu())? - cpu) * 1e6 / self.changes as f64;
        replicas.into_iter().try_for_each(Replica::stop)?;
        Ok(Cost { resident, stores, cpu: last, changes })
    }

    /// Waits until the replicas share all shards and objects, each of which was handled.
    fn complete(&self, replicas: &[Replica], shards: bool) -> Result<()> {
        let owners = self.objects.owners();
        quiet(replicas, |counts| {
            let sum = |of: fn(&Counts) -> usize| counts.iter().map(of).sum::<usize>();
            (!shards || are_balanced(counts)) && sum(|one| one.objects) >= 2 * owners && sum(|one| one.calls) >= owners
        })
    }
}

/// Waits until the condition holds, and the replicas have nothing more to do.
fn quiet(replicas: &[Replica], holds: impl Fn(&[Counts]) -> bool) -> Result<()> {
    let (begun, mut last, mut since) = (Instant::now(), Vec::new(), Instant::now());
    while begun.elapsed() < TIMEOUT {
        // Sessions are renewed all the time.
        let counts = replicas.iter().map(|replica| Counts { requests: 0, ..replica.counts() }).collect::<Vec<_>>();
        if counts != last {
            (last, since) = (counts, Instant::now());
        } else if holds(&last) && since.elapsed() >= QUIET {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("the replicas are not done within {TIMEOUT:?}: {last:?}")
}

/// What each of some replicas needs.
struct Cost {
    resident: f64,
    stores: f64,
    cpu: f64,
    changes: f64,
}

impl Cost {
    /// The cells of the table.
    fn beside(&self, one: &Self) -> impl fmt::Display {
        let Self { resident, stores, cpu, changes } = self;
        format!(
            "{resident:.0} | {:.2} | {stores:.1} | {:.2} | {cpu:.2} | {:.2} | {changes:.0} | {:.2}",
            resident / one.resident,
            stores / one.stores,
            cpu / one.cpu,
            changes / one.changes,
        )
    }
}

/// A process of the controller.
struct Replica {
    process: Child,
    input: Option<ChildStdin>,
    usage: Usage,
    counts: Arc<Mutex<Counts>>,
    calls: Arc<Mutex<Vec<Call>>>,
    /// Between it and the API server. Its calls are kept.
    proxy: Option<Proxy>,
}

impl Replica {
    fn start(kubeconfig: &Path, shards: bool, proxy: Option<Proxy>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("replica").arg("--kubeconfig").arg(kubeconfig).args(proxy.as_ref().map(|_| "--calls"));
        command.args(shards.then_some("--shards")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take().context("stdout is piped")?);
        let (usage, counts) = (Usage::of(process.id()), Arc::<Mutex<Counts>>::default());
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        let shared = (Arc::clone(&counts), Arc::clone(&calls));
        thread::spawn(move || read(output, &shared.0, &shared.1));
        Ok(Self { process, input, usage, counts, calls, proxy })
    }

    /// The bytes that it has received, if it is behind a proxy.
    fn received(&self) -> u64 {
        self.proxy.as_ref().map_or(0, Proxy::received)
    }

    fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    /// Ends its input, and waits until it has stopped.
    fn stop(mut self) -> Result<()> {
        drop(self.input.take());
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { bail!("a replica has ended with {status}") }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It has ended already, unless the measurement has failed.
        drop(self.process.kill());
    }
}

/// Reads what a replica prints.
fn read(output: ChildStdout, counts: &Mutex<Counts>, calls: &Mutex<Vec<Call>>) {
    use std::io::{BufRead as _, BufReader};
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Line::Counts(new)) => *counts.lock() = new,
            Ok(Line::Call(call)) => calls.lock().push(call),
            Err(_) => {}
        }
    }
}
