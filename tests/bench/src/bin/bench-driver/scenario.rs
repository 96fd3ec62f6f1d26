//! Scenarios in which each program is measured.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kooper_bench::{Api, Proxy, Usage};
use kooper_tests::control_plane::ControlPlane;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::loader::Loader;
use crate::program::{Program, Running};
use crate::sample::{Sample, Stage};

/// The longest cold sync of so many objects as are usual.
pub(crate) const SYNC: Duration = Duration::from_secs(180);
/// The longest wait for the last changes; those that were merged never come.
const DRAIN: Duration = Duration::from_secs(10);
/// A program that used no CPU for this long has done with its relist.
const QUIET: Duration = Duration::from_secs(10);
/// Quiet time before a measurement starts, for what is left over from the one before.
const SETTLE: Duration = Duration::from_secs(3);
/// Duration of the idle measurement.
const IDLE: Duration = Duration::from_secs(30);
/// Changes a second, and for how many seconds.
const RATES: [(u32, usize); 2] = [(100, 20), (1_000, 10)];
/// Changes a second of the churn.
const CHURN: u32 = 100;
/// Objects that change while a program can't see it.
const MISSED: usize = 100;

/// Selectable scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Scenario {
    /// From the start to the last object.
    Sync,
    /// Nothing happens for 30 seconds.
    Idle,
    /// 100, then 1 000 changes a second.
    Latency,
    /// The list after a 410.
    Relist,
    /// 100 touches and replacements a second, in the last run.
    Churn,
}

/// Environment of the scenarios.
pub(crate) struct Bench<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) cluster: &'a ControlPlane,
    pub(crate) proxy: &'a Proxy,
    pub(crate) kubeconfig: &'a Path,
    pub(crate) api: &'a Api,
    pub(crate) loader: &'a Loader,
}

impl Bench<'_> {
    /// Takes one program through all of it.
    pub(crate) async fn run(&self, program: &Program, run: u32, last: bool, samples: &mut Vec<Sample>) -> Result<()> {
        let kind = self.api.kind;
        let sample = |stage| Sample::new(kind, program.name, run, stage);
        let log = self.arguments.output.join(format!("{}-{kind}.log", program.name));
        sleep(SETTLE).await;
        let (server, before) = self.server()?;
        let mut running = program.start(self.kubeconfig, kind, self.arguments.objects, &log)?;
        let mut synced = sync(&mut running, SYNC, sample(Stage::Sync)).await?;
        synced.server = Some((server.cpu()? - before).as_secs_f64());
        samples.push(synced);
        if self.arguments.wants(Scenario::Idle) {
            samples.push(idle(&running, sample(Stage::Idle)).await?);
        }
        if self.arguments.wants(Scenario::Latency) {
            for (rate, seconds) in RATES {
                let sample = sample(Stage::Latency(rate));
                samples.push(self.latency(&mut running, rate, seconds, sample).await?);
            }
        }
        if self.arguments.wants(Scenario::Relist) {
            samples.push(self.relist(&mut running, sample(Stage::Relist)).await?);
        }
        if self.arguments.wants(Scenario::Churn) && last && self.arguments.churn > 0 {
            samples.push(self.churn(&mut running, sample(Stage::Churn)).await?);
        }
        running.quit().await
    }

    /// The API server's process, which is another one after a restart, and its CPU time so far.
    fn server(&self) -> Result<(Usage, Duration)> {
        let file = self.cluster.dir().join("kube-apiserver.pid");
        let pid = fs::read_to_string(file).context("reading the API server's id")?;
        let server = Usage::of(pid.trim().parse().context("the process ID of the API server is not a number")?);
        Ok((server, server.cpu()?))
    }

    async fn latency(&self, running: &mut Running, rate: u32, seconds: usize, sample: Sample) -> Result<Sample> {
        sleep(SETTLE).await;
        let count = rate as usize * seconds;
        running.reset(count).await?;
        let (before, started) = (running.usage.cpu()?, Instant::now());
        self.loader.touch_at(rate, count).await?;
        let writing = started.elapsed();
        running.reached(DRAIN).await?;
        let cpu = running.usage.cpu()? - before;
        Ok(sample.with_changes(count, writing, cpu, running.report().await?))
    }

    /// Cuts the program off, changes objects, restarts the API server and lets the program come back.
    async fn relist(&self, running: &mut Running, mut sample: Sample) -> Result<Sample> {
        sleep(SETTLE).await;
        let missed = MISSED.min(self.loader.objects());
        let version = self.api.version().await?;
        running.reset(missed).await?;
        self.proxy.shut();
        self.loader.touch_all(missed).await?;
        // Its watch cache then begins at the newest version: a watch from before is answered with 410.
        self.cluster.stop_apiserver();
        self.cluster.start_apiserver();
        self.api.await_served().await?;
        self.api.expect_expired(&version).await?;

        running.usage.forget_peak()?;
        let (server, server_before) = self.server()?;
        let (before, opened) = (running.usage.cpu()?, Instant::now());
        self.proxy.open();
        let reached = relisted(running).await?;
        // A relist may go on after the last change was seen.
        sleep(SETTLE).await;
        sample.wall = reached.map(|at| (at - opened).as_secs_f64());
        sample.cpu = Some((running.usage.cpu()? - before).as_secs_f64());
        sample.server = Some((server.cpu()? - server_before).as_secs_f64());
        sample.peak = Some(running.usage.peak()?);
        sample.resident = Some(running.usage.resident()?);
        sample.report = Some(running.report().await?);
        Ok(sample)
    }

    async fn churn(&self, running: &mut Running, mut sample: Sample) -> Result<Sample> {
        sleep(SETTLE).await;
        let count = CHURN as usize * usize::try_from(self.arguments.churn)?;
        running.reset(count).await?;
        running.usage.forget_peak()?;
        let (before, started) = (running.usage.cpu()?, Instant::now());
        self.loader.churn_at(CHURN, count).await?;
        let writing = started.elapsed();
        running.reached(DRAIN).await?;
        let cpu = running.usage.cpu()? - before;
        sample.peak = Some(running.usage.peak()?);
        sample.resident = Some(running.usage.resident()?);
        Ok(sample.with_changes(count, writing, cpu, running.report().await?))
    }
}

/// Waits for the last object, for so long at most.
pub(crate) async fn sync(running: &mut Running, limit: Duration, mut sample: Sample) -> Result<Sample> {
    let wall = running.synced(limit).await?;
    sample.wall = Some(wall.as_secs_f64());
    sample.cpu = Some(running.usage.cpu()?.as_secs_f64());
    sample.peak = Some(running.usage.peak()?);
    let report = running.report().await?;
    ensure!(report.read > 0, "the handler read no field");
    sample.report = Some(report);
    Ok(sample)
}

/// Waits for the missed changes. A controller may show its handlers the old objects in a relist, and then
/// some never come.
async fn relisted(running: &mut Running) -> Result<Option<Instant>> {
    let (mut before, mut quiet) = (running.usage.cpu()?, Duration::ZERO);
    let step = Duration::from_secs(1);
    while quiet < QUIET {
        let reached = running.reached(step).await?;
        if reached.is_some() {
            return Ok(reached);
        }
        let cpu = running.usage.cpu()?;
        quiet = if cpu == before { quiet + step } else { Duration::ZERO };
        before = cpu;
    }
    Ok(None)
}

async fn idle(running: &Running, mut sample: Sample) -> Result<Sample> {
    sleep(SETTLE * 2).await;
    let before = running.usage.cpu()?;
    sleep(IDLE).await;
    let cpu = (running.usage.cpu()? - before).as_secs_f64();
    sample.cpu = Some(cpu);
    sample.share = Some(cpu / IDLE.as_secs_f64() * 100.0);
    sample.resident = Some(running.usage.resident()?);
    Ok(sample)
}
