//! The benchmark's driver: loads objects, runs one program after another, measures, prints the tables.

mod arguments;
mod figure;
mod loader;
mod machine;
mod program;
mod replay;
mod sample;
mod scenario;
mod sizes;
mod table;

use std::fs;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use kooper_bench::{Api, Etcd, Kind, Proxy, client};
use kooper_tests::control_plane::ControlPlane;

use crate::arguments::Arguments;
use crate::loader::Loader;
use crate::machine::Machine;
use crate::program::Program;
use crate::sample::Sample;
use crate::scenario::{Bench, Scenario};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.output).context("making --output")?;
    let programs = Program::installed(&arguments)?;
    ensure!(!programs.is_empty(), "none of the programs is built");
    println!("{}", Machine::look().describe(&arguments));

    if let Some(file) = &arguments.figure {
        let points = sizes::measure(&arguments, &programs).await?;
        println!("{}", figure::table(&points));
        return fs::write(file, figure::draw(&points)).with_context(|| format!("writing {}", file.display()));
    }
    let mut samples = Vec::new();
    for kind in arguments.kinds() {
        let before = samples.len();
        measure(&arguments, kind, &programs, &mut samples).await?;
        println!("{}", table::of_kind(kind, &programs, &samples[before..]));
    }
    Ok(())
}

/// Runs every program on one kind, in turn, `--runs` times.
async fn measure(arguments: &Arguments, kind: Kind, programs: &[Program], samples: &mut Vec<Sample>) -> Result<()> {
    // A server of its own for each kind, so that neither pays for the other's objects.
    let cluster = ControlPlane::start_with(&["--without-controller-manager"]).context("no control plane")?;
    let proxy = Proxy::start(cluster.address()).await?;
    let (server, through) = (cluster.address().to_string(), proxy.address().to_string());
    let kubeconfig = cluster.kubeconfig_with("proxy", |text| text.replace(&server, &through));
    let api = Api::prepare(client(cluster.kubeconfig()).await?, kind).await?;
    let loader = Loader::new(&api, Etcd::new(&cluster.dir().join("etcd.sock")), arguments.objects).await?;
    let loaded = loader.load(&api).await?;
    println!("\n## {kind}\n\n{loaded}");

    let bench =
        Bench { arguments, cluster: &cluster, proxy: &proxy, kubeconfig: &kubeconfig, api: &api, loader: &loader };
    let runs = arguments.runs();
    for run in 1..=runs {
        for program in in_turn(programs, kind, run) {
            eprintln!("{kind}: {} ({run} of {runs})", program.name);
            let last = run == runs;
            let outcome = bench.run(program, run, last, samples).await;
            // Save the measurements even if the rest of the run fails.
            save(arguments, samples)?;
            if let Err(error) = outcome {
                eprintln!("{kind}: {}: {error:#}", program.name);
            }
        }
    }
    Ok(())
}

/// The programs in an order of this kind and run, so that none is always the first or the last: the first one
/// fills caches, and the server grows with the runs.
fn in_turn(programs: &[Program], kind: Kind, run: u32) -> impl Iterator<Item = &Program> {
    let first = 2 * kind as usize + run as usize;
    (0..programs.len()).filter_map(move |turn| programs.get((first + turn) % programs.len()))
}

fn save(arguments: &Arguments, samples: &[Sample]) -> Result<()> {
    let path = arguments.output.join("samples.json");
    fs::write(&path, serde_json::to_vec_pretty(samples)?).with_context(|| format!("writing {}", path.display()))
}
