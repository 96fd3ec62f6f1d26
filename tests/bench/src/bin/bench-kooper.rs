//! Kooper's own side of the benchmark: a controller by its builder.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures_util::Stream;
use k8s_openapi::api::core::v1::Pod;
use kooper::metrics::Prometheus;
use kooper::prelude::PartialObjectMeta;
use kooper::prometheus::Registry;
use kooper::retriever::{ApiRetriever, Event, ListRequest, Page, RetrieveError, Scope, WatchRequest};
use kooper::{CancellationToken, ConfigError, Controller, Operator, Retriever, State};
use kooper_bench::{Flags, Kind, PodImage, Subject, Tally, Widget, WidgetImage, console, sent};
use kube::ResourceExt;

/// Kooper under the benchmark's protocol.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    flags: Flags,
    /// Retrieve metadata only; the handler reads the labels instead of the spec.
    #[arg(long)]
    metadata_only: bool,
    /// Decode only the fields that the handler reads.
    #[arg(long, conflicts_with = "metadata_only")]
    partial: bool,
    #[command(flatten)]
    form: Form,
}

/// The way in which the objects are fetched, to compare ways that a controller does not offer.
#[derive(clap::Args, Clone, Copy)]
struct Form {
    /// List pages of so many objects instead of a stream; 0: all in one.
    #[arg(long)]
    pages: Option<u32>,
    /// Fetch pods as JSON, too.
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { flags, metadata_only, partial, form } = Arguments::parse();
    let config = flags.config().await?;
    let layer = Prometheus::new(&Registry::new())?.client_layer(&config.cluster_url);
    let client = kooper::client::connect(config, &layer)?;
    let tally = Arc::new(Tally::new(flags.expect));
    console::serve(tally.clone());
    let controller = match flags.kind {
        Kind::Pods if metadata_only => of_metadata::<Pod>(flags.workers, tally),
        Kind::Pods if partial => controller::<PodImage>(flags.workers, form, tally),
        Kind::Pods => controller::<Pod>(flags.workers, form, tally),
        Kind::Crs if metadata_only => of_metadata::<Widget>(flags.workers, tally),
        Kind::Crs if partial => controller::<WidgetImage>(flags.workers, form, tally),
        Kind::Crs => controller::<Widget>(flags.workers, form, tally),
    }?;
    let operator = Operator::builder().client(client).controller(controller).build()?;
    operator.run(CancellationToken::new()).await?;
    Ok(())
}

fn controller<K: Subject + kooper::Kind>(
    workers: u16,
    form: Form,
    tally: Arc<Tally>,
) -> Result<Controller, ConfigError> {
    let mut builder = Controller::builder::<K>("bench").resync(None).workers(workers.into());
    if form.pages.is_some() || form.json {
        builder = builder.retriever_from(move |client| {
            let scope = Scope { json_only: form.json, ..Scope::default() };
            Formed { retriever: ApiRetriever::<K>::new(client, scope), pages: form.pages }
        });
    }
    builder
        .init(move || {
            let tally = tally.clone();
            async move { Ok::<_, kooper::BoxError>(tally) }
        })
        .handler(async |object: Arc<K>, tally: State<Arc<Tally>>| {
            tally.saw(&object.name_any(), object.image_length(), object.sent());
        })
        .build()
}

fn of_metadata<K: kooper::Kind>(workers: u16, tally: Arc<Tally>) -> Result<Controller, ConfigError> {
    Controller::builder::<K>("bench")
        .metadata_only()
        .resync(None)
        .workers(workers.into())
        .init(move || {
            let tally = tally.clone();
            async move { Ok::<_, kooper::BoxError>(tally) }
        })
        .handler(async |object: Arc<PartialObjectMeta<K>>, tally: State<Arc<Tally>>| {
            tally.saw(&object.name_any(), object.labels().len(), sent(&*object));
        })
        .build()
}

/// The retriever of the API server, with another form of lists.
struct Formed<K> {
    retriever: ApiRetriever<K>,
    pages: Option<u32>,
}

impl<K: kooper::Kind> Retriever<K> for Formed<K> {
    async fn list(&self, mut request: ListRequest) -> Result<Page, RetrieveError> {
        request.limit = self.pages.unwrap_or(request.limit);
        self.retriever.list(request).await
    }

    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        self.retriever.watch(request).await
    }

    fn streams_lists(&self) -> bool {
        self.pages.is_none()
    }

    fn longest_silence(&self) -> Option<Duration> {
        self.retriever.longest_silence()
    }
}
