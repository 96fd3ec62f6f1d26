//! An operator in the test's process, without a server.

use parking_lot::Mutex;
use std::ffi::OsStr;
use std::future::{Ready, ready};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::Stream;
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{self, ConfigMap};
use kooper::controller::{self, operator};
use kooper::kube::Client;
use kooper::kube::client::Body;
use kooper::metrics::Prometheus;
use kooper::retriever::{Event, ListRequest, Page, RetrieveError, Retriever, WatchRequest};
use kooper::testing::Cluster;
use kooper::{CancellationToken, Controller, Operator};
use kooper::{Health, Kind, RunError};
use kooper_tests::control_plane::ControlPlane;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tower::service_fn;

use crate::live::Live;

/// A running operator; stopped when it is dropped.
pub(crate) struct Running {
    pub(crate) shutdown: CancellationToken,
    pub(crate) health: Health,
    pub(crate) registry: prometheus::Registry,
    pub(crate) ended: JoinHandle<Result<(), RunError>>,
}

pub(crate) fn run(controllers: impl IntoIterator<Item = Controller>) -> Running {
    run_with(None, controllers)
}

pub(crate) fn run_with(client: Option<Client>, controllers: impl IntoIterator<Item = Controller>) -> Running {
    run_edited(client, controllers, |builder| builder)
}

/// Starts the only controller of an operator.
pub(crate) trait Start {
    fn start(self) -> Running;

    /// Starts it on a cluster, as the user in `system:masters`.
    fn start_on(self, cluster: &ControlPlane) -> Live;
}

impl<K, O, S> Start for controller::Builder<K, O, S>
where
    K: Kind,
    O: DeserializeOwned + Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    fn start(self) -> Running {
        run([self.build().unwrap()])
    }

    fn start_on(self, cluster: &ControlPlane) -> Live {
        Live::on(cluster, [self.build().unwrap()])
    }
}

/// A controller of ConfigMaps without a resync.
pub(crate) fn builder(name: &str) -> controller::Builder<ConfigMap> {
    Controller::builder(name).resync(None)
}

/// An operator with further settings.
pub(crate) fn run_edited(
    client: Option<Client>,
    controllers: impl IntoIterator<Item = Controller>,
    edit: impl FnOnce(operator::Builder) -> operator::Builder,
) -> Running {
    let (shutdown, health, registry) = (CancellationToken::new(), Health::default(), prometheus::Registry::new());
    let mut builder = Operator::builder()
        .health(health.clone())
        .metrics(Arc::new(Prometheus::new(&registry).unwrap()))
        .drain_timeout(Duration::from_secs(20));
    for controller in controllers {
        builder = builder.controller(controller);
    }
    if let Some(client) = client {
        builder = builder.client(client);
    }
    let operator = edit(builder).build().unwrap();
    let ended = tokio::spawn(operator.run(shutdown.clone()));
    Running { shutdown, health, registry, ended }
}

impl Running {
    pub(crate) async fn stop(mut self) -> Result<(), RunError> {
        self.shutdown.cancel();
        (&mut self.ended).await.unwrap()
    }

    /// The value of a series in a scrape.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        self.metrics().lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    /// The text of a scrape.
    pub(crate) fn metrics(&self) -> String {
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A client behind a proxy that responds to the first merge patch of this resource with 404, and the number of these patches.
pub(crate) fn behind_a_proxy(client: Client, resource: &str) -> (Client, Arc<AtomicUsize>) {
    let (namespace, part) = (client.default_namespace().to_owned(), format!("/{resource}/"));
    let patches = Arc::<AtomicUsize>::default();
    let counted = patches.clone();
    let send = service_fn(move |request: Request<Body>| {
        let is_merge = request.headers().get(CONTENT_TYPE).is_some_and(|form| form == "application/merge-patch+json");
        let is_counted = is_merge && request.uri().path().contains(&part);
        let is_first = is_counted && counted.fetch_add(1, Ordering::SeqCst) == 0;
        let client = client.clone();
        async move {
            if !is_first {
                return client.send(request).await;
            }
            let mut response = Response::new(Body::from(b"404 page not found".to_vec()));
            *response.status_mut() = StatusCode::NOT_FOUND;
            Ok(response)
        }
    });
    (Client::new(send, namespace), patches)
}

/// Waits for a condition; an hour of paused time costs nothing.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// The Kubernetes Events with this reason.
pub(crate) async fn events(cluster: &Cluster, reason: &str) -> Vec<v1::Event> {
    let events = cluster.list::<v1::Event>().await.expect("they can be listed");
    events.into_iter().filter(|event| event.reason.as_deref() == Some(reason)).collect()
}

/// Waits until there are Kubernetes Events with this reason that are right.
pub(crate) async fn wait_for_events(
    cluster: &Cluster,
    reason: &str,
    right: impl Fn(&[v1::Event]) -> bool,
) -> Vec<v1::Event> {
    for _ in 0..2000 {
        let events = events(cluster, reason).await;
        if right(&events) {
            return events;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no such Events: {:#?}", events(cluster, reason).await);
}

/// The notes of handlers, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, line: impl Into<String>) {
        self.0.lock().push(line.into());
    }

    /// A handler with one argument that notes each of its calls.
    pub(crate) fn noting<A>(
        &self,
        line: impl Fn(A) -> String + Send + Sync + 'static,
    ) -> impl Fn(A) -> Ready<()> + Send + Sync + 'static {
        let log = self.clone();
        move |argument| {
            log.note(line(argument));
            ready(())
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

/// Lists the objects of the inner retriever, except those of this name. Watches have all.
pub(crate) struct Hiding<R>(pub(crate) R, pub(crate) &'static str);

impl<R: Retriever<ConfigMap>> Retriever<ConfigMap> for Hiding<R> {
    async fn list(&self, request: ListRequest) -> Result<Page, RetrieveError> {
        let mut page = self.0.list(request).await?;
        page.objects.retain(|object| object.as_ref().is_ok_and(|object| object.key().name() != self.1));
        Ok(page)
    }

    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<impl Stream<Item = Result<Event, RetrieveError>> + Send + 'static, RetrieveError> {
        self.0.watch(request).await
    }
}

pub(crate) fn config(name: &str, value: &str) -> ConfigMap {
    let mut config: ConfigMap = with_name(name);
    config.metadata.namespace = Some("test".to_owned());
    config.metadata.uid = Some(name.to_owned());
    config.data = Some([("value".to_owned(), value.to_owned())].into());
    config
}

/// An object that only has a name.
pub(crate) fn with_name<T: Resource + Default>(name: &str) -> T {
    let mut object = T::default();
    object.meta_mut().name = Some(name.to_owned());
    object
}

/// Runs tests of this program in a process of their own, with flags and variables: whether all pass, and what is printed.
pub(crate) fn run_tests(
    names: &[impl AsRef<OsStr>],
    flags: &[&str],
    variables: &[(&str, impl AsRef<OsStr> + Copy)],
) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    let command = command.arg("--exact").args(flags).args(names).envs(variables.iter().copied());
    let output = command.output().expect("it can be run");
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success() && printed.contains(&format!("{} passed", names.len())), printed)
}
