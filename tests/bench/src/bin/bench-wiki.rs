//! Ours for children: the operator of wikis with six declared children, and nothing else.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use kooper::metrics::Prometheus;
use kooper::prometheus::Registry;
use kooper::{CancellationToken, KindExt as _, Operator};
use kooper_bench::{Wiki, apply_by_hand, config, wiki_children};

#[derive(Parser)]
struct Arguments {
    /// The API server to use.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Interval at which each wiki is reconciled, such as 30s.
    #[arg(long)]
    resync: String,
    /// Applies the children from the handler, as before they were declared.
    #[arg(long)]
    by_hand: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { kubeconfig, resync, by_hand } = Arguments::parse();
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let config = config(&kubeconfig).await?;
    let layer = Prometheus::new(&Registry::new())?.client_layer(&config.cluster_url);
    let client = kooper::client::connect(config, &layer)?;
    let resync = Duration::from_secs(resync.trim_end_matches('s').parse().context("whole seconds")?);
    let (controller, children) = (Wiki::controller("wikis").resync(resync).workers(4), wiki_children());
    let controller = if by_hand {
        controller.handler(apply_by_hand).build()?
    } else {
        controller.handler(children.handler(async || {})).build()?
    };
    let operator = Operator::builder().client(client).controller(controller).build()?;
    operator.run(CancellationToken::new()).await?;
    Ok(())
}
