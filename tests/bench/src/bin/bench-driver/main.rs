//! The benchmark's driver: loads objects, runs one program after another, measures, prints the tables.

mod api;
mod arguments;
mod cluster;
mod dice;
mod document;
mod etcd;
mod loader;
mod machine;
mod program;
mod proxy;
mod sample;
mod scenario;
mod table;
mod usage;

use std::fs;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use kooper_bench::Kind;

use crate::api::Api;
use crate::arguments::Arguments;
use crate::cluster::Cluster;
use crate::loader::Loader;
use crate::machine::Machine;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::sample::Sample;
use crate::scenario::{Bench, Scenario};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.output).context("making --output")?;
    let programs = Program::installed(&arguments)?;
    ensure!(!programs.is_empty(), "none of the programs is built");
    println!("{}", Machine::look().describe(&arguments));

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
    let cluster = Cluster::start(arguments)?;
    let proxy = Proxy::start(cluster.address()?).await?;
    let kubeconfig = cluster.kubeconfig_through(&proxy)?;
    let api = Api::prepare(cluster.client().await?, kind).await?;
    let loader = Loader::new(&api, cluster.etcd(), arguments.objects).await?;
    let loaded = loader.load(&api).await?;
    println!("\n## {kind}\n\n{loaded}");

    let bench =
        Bench { arguments, cluster: &cluster, proxy: &proxy, kubeconfig: &kubeconfig, api: &api, loader: &loader };
    for run in 1..=arguments.runs {
        for program in programs {
            eprintln!("{kind}: {} ({run} of {})", program.name, arguments.runs);
            let last = run == arguments.runs;
            let outcome = bench.run(program, run, last, samples).await;
            // What was measured stays, whatever happens to the rest of it.
            save(arguments, samples)?;
            if let Err(error) = outcome {
                eprintln!("{kind}: {}: {error:#}", program.name);
            }
        }
    }
    Ok(())
}

fn save(arguments: &Arguments, samples: &[Sample]) -> Result<()> {
    let path = arguments.output.join("samples.json");
    fs::write(&path, serde_json::to_vec_pretty(samples)?).with_context(|| format!("writing {}", path.display()))
}
