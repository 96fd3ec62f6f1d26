//! The memory of a cache of Secrets: whole, of their metadata, and of some by a label or a name.
//!
//! `bench-narrow --kubeconfig FILE fill` creates the Secrets, and `bench-narrow --kubeconfig FILE hold FORM` prints
//! what one form of the cache takes, each in a process of its own.

use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kooper::capability::{All, Subset};
use kooper::metrics::Prometheus;
use kooper::{CancellationToken, Controller, Health, KindExt, Operator, Reader, prometheus};
use kooper_bench::{Usage, metric};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::metadata::PartialObjectMeta;
use serde_json::{from_value, json};
use tokio::time::sleep;

const NAMESPACE: &str = "default";

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Creates Secrets of 2 kB, of which one in a hundred has the label `app=shop`.
    Fill {
        #[arg(long, default_value_t = 20_000)]
        secrets: usize,
    },
    /// Holds the Secrets in memory.
    Hold { form: Form },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// No cache of Secrets.
    Nothing,
    /// `Reader<Secret>`.
    Whole,
    /// `Reader<PartialObjectMeta<Secret>>`.
    Metadata,
    /// `Reader<Secret, OfShop>`.
    Label,
    /// `Reader<Secret, Named>`.
    Name,
}

struct OfShop;

impl Subset for OfShop {
    type Object = Secret;

    fn select(all: All<Secret>) -> All<Secret> {
        all.labels("app=shop")
    }
}

struct Named;

impl Subset for Named {
    type Object = Secret;

    fn select(all: All<Secret>) -> All<Secret> {
        all.names(["secret-1"])
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let client = kooper_bench::client(&arguments.kubeconfig).await?;
    match arguments.what {
        What::Fill { secrets } => fill(&client, secrets).await,
        What::Hold { form } => hold(client, form).await,
    }
}

/// A Secret whose content hardly compresses, as with keys and certificates.
fn secret(number: usize) -> anyhow::Result<Secret> {
    let mut state = number as u64 + 1;
    let mut letters = || -> String {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (state >> 59) as u8 % 26)
        };
        (0..750).map(|_| next()).collect()
    };
    let app = if number % 100 == 1 { "shop" } else { "other" };
    Ok(from_value(json!({
        "metadata": {"name": format!("secret-{number}"), "labels": {"app": app}},
        "stringData": {"tls.crt": letters(), "tls.key": letters()},
    }))?)
}

async fn fill(client: &Client, secrets: usize) -> anyhow::Result<()> {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let create = |number| {
        let api = api.clone();
        async move {
            api.create(&PostParams::default(), &secret(number)?).await.context("a Secret is not created").map(drop)
        }
    };
    stream::iter(0..secrets).map(create).buffer_unordered(32).try_collect::<()>().await
}

async fn hold(client: Client, form: Form) -> anyhow::Result<()> {
    let of = || ConfigMap::controller("holds").fields("metadata.name=none").namespaces([NAMESPACE]);
    let controller: Controller = match form {
        Form::Nothing => of().handler(async || {}).build()?,
        Form::Whole => of().handler(async |_: Reader<Secret>| {}).build()?,
        Form::Metadata => of().handler(async |_: Reader<PartialObjectMeta<Secret>>| {}).build()?,
        Form::Label => of().handler(async |_: Reader<Secret, OfShop>| {}).build()?,
        Form::Name => of().handler(async |_: Reader<Secret, Named>| {}).build()?,
    };
    let (registry, health) = (prometheus::Registry::new(), Health::default());
    let operator = Operator::builder()
        .client(client)
        .metrics(Arc::new(Prometheus::new(&registry)?))
        .health(health.clone())
        .controller(controller)
        .build()?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.run(stop.clone()));
    while health.ready().is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    let families = registry.gather();
    let usage = Usage::of(process::id());
    println!(
        "{form:?}: {} objects, {} bytes in the store, {:.1} MB resident, {:.1} MB at most",
        metric(&families, "kooper_store_objects"),
        metric(&families, "kooper_store_bytes"),
        usage.resident()?,
        usage.peak()?,
    );
    stop.cancel();
    running.await??;
    Ok(())
}
