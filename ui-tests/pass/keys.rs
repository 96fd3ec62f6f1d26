//! Every key, and each way to write it.

#![expect(clippy::redundant_closure, reason = "closures are a way to write a key")]

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kooper::handler::HandlerService;
use kooper::prelude::*;
use kooper::retriever::Retriever;

use crate::names;

macro_rules! accepted {
    ($($name:ident)*) => {
        #[test]
        fn each_is_defined() {
            $(assert_eq!(names::<$name>(), [stringify!($name).replace('_', "-")]);)*
        }
    };
}

accepted! {
    resource resync resync_off events_off workers retries retries_unlimited backoff retry_rate retry_rate_alone timeout timeout_off
    namespace own_namespace namespace_named_own namespace_constant namespaces namespaces_by_labels namespaces_by_a_constant labels labels_by_sets fields metadata_only changed changed_any changed_fields debounced debounced_by_constants prioritized steered when_ready with_state retrieved constants constants_in_parentheses closures closures_in_lists
    layered access access_of_nothing
}

#[kooper::controller(resource = Pod, main = false)]
async fn resource(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, resync = "1h30m", main = false)]
async fn resync(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, resync = off, main = false)]
async fn resync_off(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, events = off, main = false)]
async fn events_off(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, workers = 4, main = false)]
async fn workers(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, retries = 0, main = false)]
async fn retries(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, retries = unlimited, main = false)]
async fn retries_unlimited(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, backoff = ("5ms", "1000s"), main = false)]
async fn backoff(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, retry_rate = (10, 100), main = false)]
async fn retry_rate(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, retry_rate = 10, main = false)]
async fn retry_rate_alone(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, timeout = "1.5s", main = false)]
async fn timeout(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, timeout = off, main = false)]
async fn timeout_off(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, namespace = "shop", main = false)]
async fn namespace(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, namespace = own, main = false)]
async fn own_namespace(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, namespace = "own", main = false)]
async fn namespace_named_own(_: Arc<Pod>) {}

const SHOP: &str = "shop";

#[kooper::controller(resource = Pod, namespace = SHOP, main = false)]
async fn namespace_constant(_: Arc<Pod>) {}

#[test]
fn a_namespace_in_quotes_is_a_name() -> Result<()> {
    for (mut controller, namespace) in [
        (own_namespace::controller()?, "here"),
        (namespace_named_own::controller()?, "own"),
        (namespace_constant::controller()?, "shop"),
    ] {
        controller.set_own_namespace("here");
        assert_eq!(controller.namespaces(), [namespace]);
    }
    Ok(())
}

#[kooper::controller(resource = Pod, namespaces = ["shop", "bakery"], main = false)]
async fn namespaces(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, namespaces(labels = "team in (a, b), !legacy"), main = false)]
async fn namespaces_by_labels(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, namespaces(labels = WEB), main = false)]
async fn namespaces_by_a_constant(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, labels = "app=web,tier!=edge", main = false)]
async fn labels(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, labels = "app in (web, api), !legacy, size > 3", main = false)]
async fn labels_by_sets(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, fields = "status.phase!=Failed,spec.nodeName=", main = false)]
async fn fields(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, metadata_only, main = false)]
async fn metadata_only(_: Arc<PartialObjectMeta<Pod>>) {}

#[kooper::controller(resource = Pod, changed = [generation, labels, annotations, finalizers, status], main = false)]
async fn changed(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, changed = [any], main = false)]
async fn changed_any(_: Arc<Pod>) {}

/// Values that several controllers share.
mod limits {
    pub(super) const WORKERS: usize = 2;
    pub(super) const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
    pub(super) const RETRIES: u32 = 5;
}

const RESYNC: Duration = Duration::from_secs(60);
const WEB: &str = "app=web";
const PAUSE: &str = "a.b/pause";
const FINALIZER: &str = "a.b/c";
const SHARDS: u16 = 32;
const MEMBERS: u8 = 4;

#[kooper::controller(
    resource = Pod, resync = RESYNC, workers = limits::WORKERS, timeout = limits::TIMEOUT, retries = limits::RETRIES,
    backoff = ("5ms", RESYNC), retry_rate = limits::RETRIES, labels = WEB, pause = PAUSE, finalizer = FINALIZER,
    cleanup = tear_down, leader_election(lease_duration = RESYNC, retry_period = "5s"), main = false
)]
async fn constants(_: Arc<Pod>) {}

async fn tear_down() {}

#[kooper::controller(resource = Pod, shards(count = SHARDS, members = MEMBERS), retry_rate = (10, limits::RETRIES), main = false)]
async fn constants_in_parentheses(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, when = |pod| pod.metadata.generation < Some(3), retriever = |client| from_the_api(client), main = false)]
async fn closures(_: Arc<Pod>) {}

#[kooper::controller(
    resource = Pod, when = |pod: &Pod| { pod.status.is_some() },
    watches = [
        Service => |service: &Service| Some(ObjectKey::of(service)),
        (ConfigMap, secret) => |config: &ConfigMap| Some(ObjectKey::of(config)),
        (Secret, metadata_only) => |secret: &PartialObjectMeta<Secret>, pods: &Reader<Pod>| pods.get(&ObjectKey::of(secret)).map(|_| ObjectKey::of(secret)),
    ],
    sources = [|| futures_util::stream::pending(), move || futures_util::stream::empty()],
    children = [config(ready = |config| config.data.is_some())], status = none, main = false
)]
async fn closures_in_lists(_: Arc<Pod>) {}

fn config(_: &Pod) -> ConfigMap {
    ConfigMap::default()
}

#[kooper::controller(resource = Pod, changed = ["spec.nodeName", "metadata.labels['a.b/c']", status], main = false)]
async fn changed_fields(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, debounce = "2s", main = false)]
async fn debounced(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, debounce = RESYNC, priority = |pod| i32::from(pod.status.is_some()), main = false)]
async fn debounced_by_constants(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, priority = urgency, main = false)]
async fn prioritized(_: Arc<Pod>) {}

fn urgency(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

#[kooper::controller(resource = Pod, pause = "a.b/pause", reconcile_now = "a.b/now", main = false)]
async fn steered(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, when = is_ready, main = false)]
async fn when_ready(_: Arc<Pod>) {}

fn is_ready(pod: &Pod) -> bool {
    pod.status.is_some()
}

#[kooper::controller(resource = Pod, init = connect, main = false)]
async fn with_state(_: Arc<Pod>, _: State<String>) {}

async fn connect() -> Result<String> {
    Ok(String::new())
}

#[kooper::controller(resource = Pod, retriever = from_the_api, main = false)]
async fn retrieved(_: Arc<Pod>) {}

fn from_the_api(client: Client) -> impl Retriever<Pod> {
    kooper::retriever::ApiRetriever::<Pod>::new(client, kooper::retriever::Scope::default())
}

#[kooper::controller(resource = Pod, layers = [limited, limited], main = false)]
async fn layered(_: Arc<Pod>) {}

fn limited() -> impl tower::Layer<HandlerService<Pod>, Service = HandlerService<Pod>> + Send + Sync {
    tower::layer::layer_fn(|service| service)
}

#[kooper::controller(resource = Pod, rbac("apps/deployments: get, patch", "pods/log: get",), main = false)]
async fn access(_: Arc<Pod>, _: Client) {}

#[kooper::controller(resource = Pod, rbac(), main = false)]
async fn access_of_nothing(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, name = "another-name", main = false)]
async fn name(_: Arc<Pod>) {}

#[test]
fn a_name_is_accepted() {
    assert_eq!(names::<name>(), ["another-name"]);
}

/// In the way of a generated type of the same name.
mod pods {}

#[kooper::controller(resource = Pod, type_name = PodController, main = false,)]
async fn pods(_: Arc<Pod>) {}

#[test]
fn a_type_name_is_accepted() {
    assert_eq!(names::<PodController>(), ["pods"]);
}

mod platform {
    pub(crate) mod reexported {
        pub(crate) use kooper::__private;
    }
}

#[kooper::controller(resource = Pod, crate = platform::reexported, main = false)]
async fn reexported(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, crate = crate::keys::platform::reexported, main = false)]
async fn reexported_from_the_root(_: Arc<Pod>) {}

#[test]
fn a_custom_path_is_accepted() {
    assert_eq!(names::<reexported>(), ["reexported"]);
    assert_eq!(names::<reexported_from_the_root>(), ["reexported-from-the-root"]);
}
