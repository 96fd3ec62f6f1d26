//! Kooper's own side of the benchmark: a controller by its builder.

use std::sync::Arc;

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kooper::{CancellationToken, Controller, Operator, State};
use kooper_bench::{Flags, Kind, Subject, Tally, Widget, console};

/// Kooper under the benchmark's protocol.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { flags } = Arguments::parse();
    let client = flags.client().await?;
    let tally = Arc::new(Tally::new(flags.expect));
    console::serve(tally.clone());
    let controller = match flags.kind {
        Kind::Pods => controller::<Pod>(flags.workers, tally),
        Kind::Crs => controller::<Widget>(flags.workers, tally),
    }?;
    let operator = Operator::builder().client(client).controller(controller).build()?;
    operator.run(CancellationToken::new()).await?;
    Ok(())
}

fn controller<K: Subject + kooper::Kind>(workers: u16, tally: Arc<Tally>) -> Result<Controller, kooper::ConfigError> {
    Controller::builder::<K>("bench")
        .resync(None)
        .workers(workers.into())
        .init(move || {
            let tally = tally.clone();
            async move { Ok::<_, kooper::BoxError>(tally) }
        })
        .handler(async |object: Arc<K>, tally: State<Arc<Tally>>| {
            tally.saw(&object.name_any(), object.image_length(), object.sent());
        })
        .build()
}
