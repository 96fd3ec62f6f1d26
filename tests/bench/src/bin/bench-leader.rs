//! Leads by Kooper's election and says so ten times a second, with the machine's uptime.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::leader::LeaderElection;
use kooper::{Call, CancellationToken, Controller, Operator};
use kooper_bench::config;
use kube::Client;

#[derive(Parser)]
struct Arguments {
    /// The API server to use.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The namespace of the Lease, and of the ConfigMap `work`.
    #[arg(long)]
    namespace: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { kubeconfig, namespace } = Arguments::parse();
    let mut config = config(&kubeconfig).await?;
    let client = Client::try_from(config.clone())?;
    config.default_retry = false;
    let controller = Controller::builder::<ConfigMap>("leader")
        .namespaces([namespace.clone()])
        .fields("metadata.name=work")
        .timeout(None)
        .leader_election(LeaderElection::new().lease("leader").namespace(namespace))
        .handler(work)
        .build()?;
    let operator = Operator::builder().client(client).lease_client(Client::try_from(config)?).controller(controller);
    operator.build()?.run(CancellationToken::new()).await?;
    Ok(())
}

/// Goes on for as long as Kooper lets it.
async fn work(call: Call) -> anyhow::Result<()> {
    while !call.is_cancelled() {
        // The machine's clock that no process can set.
        let uptime = std::fs::read_to_string("/proc/uptime")?;
        println!("leads {}", uptime.split(' ').next().unwrap_or_default());
        tokio::select! {
            () = call.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
    Ok(())
}
