//! A process of the controller that is measured.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use k8s_openapi::api::core::v1::ConfigMap;
use kooper::metrics::Prometheus;
use kooper::prelude::OwnedApplier;
use kooper::prometheus::Registry;
use kooper::shards::Shards;
use kooper::{CancellationToken, Controller, Operator};
use kooper_bench::{Widget, metric};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::{now, objects};

/// The number of shards.
pub(crate) const SHARDS: usize = 32;

/// The time between two reports.
const REPORT: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Shares the objects with other replicas.
    #[arg(long)]
    shards: Option<Field>,
    /// Follows one of so many parts of the owners.
    #[arg(long)]
    part: Option<usize>,
    /// Prints each call.
    #[arg(long)]
    calls: bool,
}

/// The field that decides the shard of an object.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Field {
    Uid,
    Namespace,
}

/// A line of what it prints.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    Counts(Counts),
    Call(Call),
}

/// A call of the handler.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) shard: u16,
    pub(crate) term: u64,
}

/// The state of a replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// The shards that it owns.
    pub(crate) shards: usize,
    /// The objects in its caches.
    pub(crate) objects: usize,
    /// Their size.
    pub(crate) bytes: usize,
    /// The calls of its handler.
    pub(crate) calls: usize,
    /// Its requests.
    pub(crate) requests: usize,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let config = kooper_bench::config(&arguments.kubeconfig).await?;
    let registry = Registry::new();
    let metrics = Arc::new(Prometheus::new(&registry)?);
    let client = kooper::client::connect(config.clone(), &metrics.client_layer(&config.cluster_url))?;
    let calls = Arc::new(AtomicUsize::new(0));
    let called = Arc::clone(&calls);
    let mut builder = Controller::builder::<Widget>("bench").resync(None).workers(4);
    if let Some(field) = arguments.shards {
        let shards = Shards::new(SHARDS as u16);
        builder = builder.shards(if matches!(field, Field::Namespace) { shards.by_namespace() } else { shards });
    }
    if let Some(count) = arguments.part {
        builder = builder.labels(objects::part(count));
    }
    // The children are there, so that only caches and queue are measured, and no writes.
    let controller = builder.handler(move |widget: Arc<Widget>, _: OwnedApplier<ConfigMap>, call: kooper::Call| {
        assert!(!widget.spec.image.is_empty());
        called.fetch_add(1, Ordering::Relaxed);
        if let Some(shard) = arguments.calls.then(|| call.shard()).flatten() {
            print(&Line::Call(Call { at: now(), shard: shard.index, term: shard.term }));
        }
        async {}
    });
    let operator = Operator::builder().program("bench").lease_namespace("default").client(client).metrics(metrics);
    let operator = operator.controller(controller.build()?).build()?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    std::thread::spawn(move || {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        stopping.cancel();
    });
    let report = async {
        loop {
            // They are gathered once: that takes as long as some changes.
            let families = registry.gather();
            let sum = |name| metric(&families, name) as usize;
            let counts = Counts {
                shards: sum("kooper_shards_owned"),
                objects: sum("kooper_store_objects"),
                bytes: sum("kooper_store_bytes"),
                calls: calls.load(Ordering::Relaxed),
                requests: sum("rest_client_requests_total"),
            };
            print(&Line::Counts(counts));
            sleep(REPORT).await;
        }
    };
    tokio::select! {
        ended = operator.run(stop) => Ok(ended?),
        () = report => Ok(()),
    }
}

fn print(line: &Line) {
    println!("{}", serde_json::to_string(line).unwrap_or_default());
}
