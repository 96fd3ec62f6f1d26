//! The cold sync of lists of different sizes, for the figure.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kooper_bench::{Api, Etcd, Kind, client};
use kooper_tests::control_plane::ControlPlane;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::loader::Loader;
use crate::machine;
use crate::program::Program;
use crate::replay::Replay;
use crate::sample::{Sample, Stage};
use crate::scenario::{SYNC, sync};

/// The programs of the figure.
const DRAWN: [&str; 4] = ["go-kooper", "controller-runtime", "kube", Program::OURS];
/// The longest recording: longer lists are copies of it.
const RECORDED: u32 = 10_000;
/// A program that would need more than this share of the free memory is left out.
const SHARE: f64 = 0.7;
/// Quiet time before a measurement.
const SETTLE: Duration = Duration::from_secs(3);

/// One program with one number of objects.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) program: &'static str,
    pub(crate) objects: u32,
    /// `true` if the list was replayed.
    pub(crate) replayed: bool,
    /// From the start to the last object, in seconds.
    pub(crate) wall: f64,
    /// CPU time of the program, in seconds.
    pub(crate) cpu: f64,
    /// Peak of the resident size, in megabytes.
    pub(crate) peak: f64,
}

/// Measures each program with each number of pods.
pub(crate) async fn measure(arguments: &Arguments, programs: &[Program]) -> Result<Vec<Point>> {
    let kind = Kind::Pods;
    let programs: Vec<&Program> = programs.iter().filter(|program| DRAWN.contains(&program.name)).collect();
    let (real, replayed): (Vec<u32>, Vec<u32>) =
        arguments.sizes.iter().partition(|size| **size <= arguments.largest_real);
    let mut points = Vec::new();
    let largest = real.last().copied().unwrap_or(RECORDED);
    {
        let cluster = ControlPlane::start_with(&["--without-controller-manager"]).context("no control plane")?;
        let api = Api::prepare(client(cluster.kubeconfig()).await?, kind).await?;
        let loader = Loader::new(&api, Etcd::new(&cluster.dir().join("etcd.sock")), largest).await?;
        let (mut written, mut recorded) = (0, replayed.is_empty());
        for size in real.iter().copied().chain((!recorded && real.is_empty()).then_some(RECORDED)) {
            loader.write_all(written..size as usize).await?;
            written = size as usize;
            if !recorded && (size >= RECORDED || size == largest) {
                Replay::record(arguments, kind, cluster.kubeconfig()).await?;
                recorded = true;
            }
            if real.contains(&size) {
                each(arguments, &programs, cluster.kubeconfig(), size, false, &mut points).await?;
            }
        }
    }
    for size in replayed {
        let replay = Replay::start(arguments, kind, size).await?;
        each(arguments, &programs, &replay.kubeconfig, size, true, &mut points).await?;
    }
    Ok(points)
}

/// Measures each program that fits into the memory.
async fn each(
    arguments: &Arguments,
    programs: &[&Program],
    kubeconfig: &Path,
    objects: u32,
    replayed: bool,
    points: &mut Vec<Point>,
) -> Result<()> {
    for program in programs {
        let before = points.iter().rfind(|point| point.program == program.name);
        let expected = before.map_or(0.0, |point| point.peak * f64::from(objects) / f64::from(point.objects));
        let free = machine::free_megabytes().context("no free memory in /proc/meminfo")?;
        if expected > SHARE * free {
            eprintln!("{} with {objects} pods would need {expected:.0} MB of {free:.0}: left out", program.name);
            continue;
        }
        eprintln!("{} with {objects} pods", program.name);
        sleep(SETTLE).await;
        let log = arguments.output.join(format!("{}-{objects}.log", program.name));
        let mut running = program.start(kubeconfig, Kind::Pods, objects, &log)?;
        let limit = SYNC + Duration::from_millis(objects.into());
        match sync(&mut running, limit, Sample::new(Kind::Pods, program.name, 1, Stage::Sync)).await {
            Ok(Sample { wall: Some(wall), cpu: Some(cpu), peak: Some(peak), .. }) => {
                points.push(Point { program: program.name, objects, replayed, wall, cpu, peak });
                running.quit().await?;
            }
            Ok(_) => {}
            Err(error) => eprintln!("{} with {objects} pods: {error:#}", program.name),
        }
    }
    Ok(())
}
