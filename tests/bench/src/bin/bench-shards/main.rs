//! The memory and the CPU time of replicas that share the objects of a controller, beside those of one process without
//! shards at the same time, on a real API server with and without shard selectors.

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
use kooper_bench::{Etcd, Proxy, Usage, median};
use kooper_tests::control_plane::ControlPlane;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::objects::Objects;
use crate::replica::{Call, Counts, Field, Line};

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
        /// Numbers of replicas.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3], value_parser = clap::value_parser!(u16).range(1..))]
        replicas: Vec<u16>,
        /// The API server's support of shard selectors.
        #[arg(long, value_delimiter = ',', default_values = ["ignored", "applied"])]
        selector: Vec<Selector>,
        /// Changes of owners for which the CPU time is measured.
        #[arg(long, default_value_t = 2_000)]
        changes: usize,
        /// Changes a second.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
        rate: u32,
        /// Number of measurements of each number of replicas; the table has the medians. In odd rounds the process
        /// without shards is started first, in even ones the last replica.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
        rounds: u32,
        /// Measures a second process without shards instead of replicas, which shows how exact the ratios are.
        #[arg(long, conflicts_with_all = ["replicas", "selector"])]
        null: bool,
    },
    /// Measures how long shards are without a call, and what replicas receive, and prints a table.
    Times {
        /// Number of owners. Each has a child.
        #[arg(long, default_value_t = 2_000)]
        owners: usize,
        /// Number of replacements of a replica.
        #[arg(long, default_value_t = 10)]
        rounds: usize,
        /// The API server's support of shard selectors.
        #[arg(long, value_delimiter = ',', default_values = ["ignored", "applied"])]
        selector: Vec<Selector>,
    },
    /// Runs the controller until the standard input ends.
    Replica(replica::Arguments),
}

/// An API server's support of shard selectors.
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
        What::Measure { owners, replicas, selector, changes, rate, rounds, null } => {
            println!(
                "MB are 10⁶ bytes. Memory is that of the largest replica. CPU until handled is that of the replica \
                 that was started last, and CPU per 1 000 changes the mean of the replicas. In brackets: of that of \
                 one replica without shards, the geometric mean of two medians, which follow: of the rounds in which \
                 that one was started first, and of those in which the last replica was. The last figures are of that \
                 of one without shards that follows as many objects as a replica with shards.\n"
            );
            println!(
                "| owners | replicas | selector | resident, MB | stores, MB | CPU until handled, s | \
                 CPU per 1 000 changes, ms | of as many objects |\n\
                 |--:|--:|---|--:|--:|--:|--:|--:|"
            );
            owners.into_iter().try_for_each(|owners| {
                let (cluster, runtime, objects) = prepare(Selector::Ignored.gate().0, owners, false)?;
                let follows = if null { Follows::All } else { Follows::Shards(Field::Uid) };
                let (cluster, runtime, objects) = (&cluster, &runtime, &objects);
                let run = Run { cluster, runtime, objects, follows, changes, rate, rounds };
                if null {
                    println!("| {owners} | 1, no shards | |{}", run.medians(1)?);
                    return Ok(());
                }
                measure(&run, &replicas, &selector)
            })
        }
        What::Times { owners, rounds, selector } => times::measure(owners, rounds, &selector),
        What::Replica(arguments) => Runtime::new()?.block_on(replica::run(arguments)),
    }
}

fn measure(run: &Run<'_>, replicas: &[u16], selectors: &[Selector]) -> Result<()> {
    let (cluster, owners) = (run.cluster, run.objects.owners());
    let (without, _) = Selector::Ignored.gate();
    // One replica owns all shards, and selects none.
    if replicas.contains(&1) {
        println!("| {owners} | 1 | |{}", run.medians(1)?);
    }
    let several = || replicas.iter().copied().map(usize::from).filter(|&count| count > 1);
    if several().next().is_none() {
        return Ok(());
    }
    let mut set = without;
    for (gate, selector) in selectors.iter().map(|selector| selector.gate()) {
        if gate != set {
            cluster.stop_apiserver();
            cluster.start_apiserver_with(&["--feature-gates", gate]);
            set = gate;
        }
        for replicas in several() {
            println!("| {owners} | {replicas} | {selector} |{}", run.medians(replicas)?);
        }
    }
    Ok(())
}

/// Starts an API server with a feature gate and objects, and a runtime for the requests to it.
fn prepare(gate: &str, owners: usize, are_uneven: bool) -> Result<(ControlPlane, Runtime, Objects)> {
    let cluster = ControlPlane::start_with(&["--without-controller-manager", "--feature-gates", gate]);
    let cluster = cluster.context("there is no control plane")?;
    let runtime = Runtime::new()?;
    let objects = runtime.block_on(async {
        let client = kooper_bench::client(cluster.kubeconfig()).await?;
        Objects::create(client, Etcd::new(&cluster.dir().join("etcd.sock")), owners, are_uneven).await
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
    let owned = counts.iter().map(|one| one.shards).sum::<usize>();
    counts.iter().all(|one| one.shards <= fair) && owned == replica::SHARDS
}

/// The part that all measurements with the same objects share.
struct Run<'a> {
    cluster: &'a ControlPlane,
    runtime: &'a Runtime,
    objects: &'a Objects,
    /// The owners that a replica follows.
    follows: Follows,
    changes: usize,
    /// Changes a second.
    rate: u32,
    rounds: u32,
}

impl Run<'_> {
    /// The medians of so many replicas.
    fn medians(&self, count: usize) -> Result<Row> {
        let rounds = (0..self.rounds).map(|round| self.replicas(count, round % 2 == 1));
        let rounds = rounds.collect::<Result<Vec<[Cost; 3]>>>()?;
        let of = |other: usize, column: usize| {
            let ratios = rounds.iter().map(|costs| costs[0][column] / costs[other][column]);
            Ratio([0, 1].map(|order| median(ratios.clone().skip(order).step_by(2))))
        };
        Ok(Row {
            cells: std::array::from_fn(|column| {
                (median(rounds.iter().map(|[shared, ..]| shared[column])), of(1, column))
            }),
            of_part: of(2, 3),
        })
    }

    /// Measures so many replicas, and one without shards, until all objects are handled, and while some change.
    ///
    /// The first of several replicas begins with all shards, and a process keeps the memory that it needed once. So they
    /// are replaced one after another, as a roll-out does it, and their successors are measured. The one without shards
    /// is measured at the same time: the machine is not as fast at one time as at another. A third process has no shards
    /// either, and follows as many owners as each of the replicas: an event takes longer in a process that sleeps longer
    /// between two of them. The last replica is started before the two, or after both, which changes the figures. Each is
    /// started when the one before has handled all: a replica with shards needs its session before it lists, so it would be
    /// the last one whatever is started first.
    fn replicas(&self, count: usize, is_first: bool) -> Result<[Cost; 3]> {
        let earlier = if count > 1 { 2 * count - 1 } else { 0 };
        let mut replicas = Vec::new();
        for _ in 0..earlier {
            self.join(&mut replicas, count)?;
        }
        let first = is_first.then(|| self.join(&mut replicas, count)).transpose()?;
        let part = [Replica::start(self.cluster.kubeconfig(), Follows::Part(count), None)?];
        quiet(&part, |counts| calls(counts) >= objects::in_part(self.objects.owners(), count))?;
        let of_part = cost(&part)?;
        let without = [Replica::start(self.cluster.kubeconfig(), Follows::All, None)?];
        self.complete(&without, false)?;
        let of_one = cost(&without)?;
        let shared = first.map_or_else(|| self.join(&mut replicas, count), Ok)?;
        let groups = [&replicas[..], &without, &part];
        let mut costs = [shared, of_one, of_part];
        for (group, cost) in groups.into_iter().zip(&mut costs) {
            cost[3] = mean_cpu(group)?;
        }
        let changes = [self.changes, self.changes, self.objects.changes_in_part(self.changes, count)];
        let called = |group: &[Replica]| calls(&group.iter().map(Replica::counts).collect::<Vec<_>>());
        let expected = std::array::from_fn::<_, 3, _>(|at| called(groups[at]) + changes[at]);
        self.runtime.block_on(self.objects.change(self.changes, self.rate))?;
        for (group, expected) in groups.into_iter().zip(expected) {
            quiet(group, |counts| calls(counts) >= expected)?;
        }
        for (group, cost) in groups.into_iter().zip(&mut costs) {
            cost[3] = (mean_cpu(group)? - cost[3]) * 1e6 / self.changes as f64;
        }
        replicas.into_iter().chain(without).chain(part).try_for_each(Replica::stop)?;
        Ok(costs)
    }

    /// Starts a replica. With more than `count`, the first one is stopped. Returns the cost of those that are left.
    fn join(&self, replicas: &mut Vec<Replica>, count: usize) -> Result<Cost> {
        replicas.push(Replica::start(self.cluster.kubeconfig(), self.follows, None)?);
        let shards = matches!(self.follows, Follows::Shards(_));
        self.complete(replicas, shards)?;
        if replicas.len() > count {
            replicas.remove(0).stop()?;
            self.complete(replicas, shards)?;
        }
        cost(replicas)
    }

    /// Waits until the replicas have all objects, each of which was handled, and share the shards if there are some.
    fn complete(&self, replicas: &[Replica], shards: bool) -> Result<()> {
        let owners = self.objects.owners();
        quiet(replicas, |counts| {
            let objects = counts.iter().map(|one| one.objects).sum::<usize>();
            (!shards || are_balanced(counts)) && objects >= 2 * owners && calls(counts) >= owners
        })
    }
}

/// The cost of a replica: megabytes resident and in its stores, seconds of CPU time until all was handled, and milliseconds
/// for 1 000 changes.
type Cost = [f64; 4];

/// The cost of some replicas until now, before the changes.
fn cost(replicas: &[Replica]) -> Result<Cost> {
    let last = replicas.last().context("at least one replica")?;
    let sizes = replicas.iter().map(|replica| replica.usage.resident()).collect::<Result<Vec<_>>>()?;
    let stores = replicas.iter().map(|replica| replica.counts().bytes).max().unwrap_or_default();
    let largest = sizes.into_iter().fold(0.0, f64::max);
    Ok([largest, stores as f64 / 1e6, last.usage.cpu()?.as_secs_f64(), 0.0])
}

/// The mean of the CPU time of some replicas, in seconds.
fn mean_cpu(replicas: &[Replica]) -> Result<f64> {
    let sum = replicas.iter().map(|replica| replica.usage.cpu()).sum::<Result<Duration>>()?;
    Ok(sum.as_secs_f64() / replicas.len() as f64)
}

/// The calls of all replicas.
fn calls(counts: &[Counts]) -> usize {
    counts.iter().map(|one| one.calls).sum()
}

/// A row of the table.
struct Row {
    /// The cost of a replica, and of that of one without shards.
    cells: [(f64, Ratio); 4],
    /// The CPU time for changes, of that of a process without shards that follows as many owners as a replica.
    of_part: Ratio,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (column, (cost, of_one)) in self.cells.iter().enumerate() {
            let digits = [0, 1, 2, 0][column];
            write!(f, " {cost:.digits$} ({of_one}) |")?;
        }
        write!(f, " {} |", self.of_part)
    }
}

/// The cost of a replica as a part of that of another process: of rounds in which the replica was started after it, and of
/// those in which it was started before.
struct Ratio([f64; 2]);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [after, before] = self.0;
        write!(f, "{:.2}: {after:.2}, {before:.2}", (after * before).sqrt())
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

/// The owners that a process follows.
#[derive(Clone, Copy)]
enum Follows {
    All,
    /// Those of its shards, which this field decides.
    Shards(Field),
    /// One of so many parts of the same size.
    Part(usize),
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
    fn start(kubeconfig: &Path, follows: Follows, proxy: Option<Proxy>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("replica").arg("--kubeconfig").arg(kubeconfig).args(proxy.as_ref().map(|_| "--calls"));
        match follows {
            Follows::All => &mut command,
            Follows::Shards(field) => {
                command.arg("--shards").args(field.to_possible_value().map(|value| value.get_name().to_owned()))
            }
            Follows::Part(count) => command.arg("--part").arg(count.to_string()),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
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
