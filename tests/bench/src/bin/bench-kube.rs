//! The peer of kube: `kube::runtime::Controller`, with and without streaming lists.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use clap::Parser;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kooper_bench::{Flags, Kind, Subject, Tally, Widget, console};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

/// kube's controller under the benchmark's protocol.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
    /// Ask for the first list as a stream of events.
    #[arg(long)]
    streaming: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { flags, streaming } = Arguments::parse();
    let client = flags.client().await?;
    let tally = Arc::new(Tally::new(flags.expect));
    console::serve(tally.clone());
    match flags.kind {
        Kind::Pods => run::<Pod>(client, flags.workers, streaming, tally).await,
        Kind::Crs => run::<Widget>(client, flags.workers, streaming, tally).await,
    }
    Ok(())
}

async fn run<K>(client: Client, workers: u16, streaming: bool, tally: Arc<Tally>)
where
    K: Subject<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Hash + Eq,
{
    let mut retrieve = watcher::Config::default();
    if streaming {
        retrieve = retrieve.streaming_lists();
    }
    Controller::new(Api::<K>::all(client), retrieve)
        .with_config(Config::default().concurrency(workers))
        .run(handle, |_, error, _| match *error {}, tally)
        .for_each(|outcome| async {
            if let Err(error) = outcome {
                eprintln!("{error}");
            }
        })
        .await;
}

async fn handle<K: Subject>(object: Arc<K>, tally: Arc<Tally>) -> Result<Action, Infallible> {
    tally.saw(&object.name_any(), object.image_length(), object.sent());
    Ok(Action::await_change())
}
