//! A crate with strict lints: the generated code causes no warnings.
#![deny(missing_docs, unreachable_pub, unused, warnings)]
#![deny(clippy::all, clippy::pedantic, clippy::unused_async)]

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kooper::prelude::*;

/// A controller with every kind of function, none of which awaits.
///
/// # Errors
/// An unknown name.
#[kooper::controller(
    resource = Pod, init = connect, when = is_ours, owns = [Service], watches = [ConfigMap => users_of],
    sources = [orders], children = [config, password(config, once)], deletion = ordered, status = none, cleanup = tear_down, finalizer = "example.com/pods", deleted = forget, leader_election,
    backoff = ("10ms", "1000s"), main = false,
)]
pub async fn pods(
    pod: Arc<Pod>,
    names: State<Vec<String>>,
    _: Call,
    _: Reader<Secret>,
    _: Getter<Secret>,
    _: Deleter<Secret>,
    _: Evictor,
    _: Recorder,
) -> Result<(), HandlerError> {
    if names.contains(&pod.name_any()) { Ok(()) } else { Err(HandlerError::permanent("a stranger")) }
}

fn config(_: &Pod) -> ConfigMap {
    ConfigMap::default()
}

fn password(_: &Pod, _: &ConfigMap) -> Secret {
    Secret::default()
}

async fn connect() -> Result<Vec<String>, HandlerError> {
    Ok(Vec::new())
}

fn is_ours(pod: &Pod) -> bool {
    pod.spec.is_some()
}

fn users_of(_: &ConfigMap) -> Option<ObjectKey> {
    None
}

fn orders() -> futures_util::stream::Pending<ObjectKey> {
    futures_util::stream::pending()
}

async fn tear_down(_: Arc<Pod>) {}

async fn forget(_: Arc<Pod>, _: Gone) {}

/// A controller of several kinds.
#[kooper::controller(resource = [Secret, Service], metadata_only, main = false)]
pub async fn each<K: Kind>(_: Arc<PartialObjectMeta<K>>) {}

/// A controller with constants and closures.
#[kooper::controller(
    resource = Pod, resync = RESYNC, workers = WORKERS, labels = WEB, when = |pod| pod.spec.is_some(),
    watches = [ConfigMap => |config: &ConfigMap| config.data.as_ref().map(|_| ObjectKey::of(config))], main = false,
)]
pub async fn in_place(_: Arc<Pod>) {}

const RESYNC: Duration = Duration::from_secs(600);
const WORKERS: usize = 4;
const WEB: &str = "app=web";

/// A controller that another program replaces.
#[deprecated]
#[kooper::controller(resource = Pod, main = false)]
pub async fn replaced(_: Arc<Pod>) {}

/// A module of controllers.
pub mod inner {
    use super::{Arc, Secret};

    /// A controller of secrets.
    #[kooper::controller(resource = Secret, main = false)]
    pub async fn secrets(_: Arc<Secret>) {}
}

/// A part of a pod.
#[derive(Debug, kooper::Partial)]
#[partial(of = Pod)]
pub struct PodNode {
    /// Who it is.
    pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    /// Where it runs.
    pub spec: Option<PodNodeSpec>,
}

/// A part of the spec of a pod.
#[derive(Debug, kooper::Partial)]
#[partial(of = k8s_openapi::api::core::v1::PodSpec)]
pub struct PodNodeSpec {
    /// The name of its node.
    pub node_name: Option<String>,
}
