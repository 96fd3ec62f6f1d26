//! The keys for production: related kinds, finalizers, leader election, CRDs.

use futures_util::stream::{self, Stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kooper::capability::Reader;
use kooper::controller::ReconcileAll;
use kooper::prelude::*;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Mall", namespaced)]
struct MallSpec {
    floors: u32,
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Stall")]
struct StallSpec {
    goods: String,
}

#[kooper::controller(resource(Mall, optional), main = false)]
async fn optional(_: Arc<Mall>) {}

#[kooper::controller(resource([Mall, Pod], optional), main = false)]
async fn optional_each<K: Kind>(_: Arc<K>) {}

#[kooper::controller(resource(Mall, secret, optional), owns = [(ConfigMap, secret)], main = false)]
async fn secret(_: Arc<Mall>) {}

#[kooper::controller(resource = Mall, owns = [Deployment, Service], main = false)]
async fn owns(_: Arc<Mall>) {}

#[kooper::controller(
    resource = Mall,
    owns = [
        Deployment,
        (Secret, labels = "app=shop", metadata_only),
        (Secret, names = ["a", "b"], namespaces = ["malls"]),
        (Pod, metadata_only, fields = "status.phase=Running"),
        (Service),
        (ConfigMap,),
    ],
    main = false
)]
async fn owns_some(_: Arc<Mall>) {}

#[kooper::controller(
    resource = Mall,
    watches = [(Secret, fields = "type=Opaque") => named, (Secret, metadata_only) => holders_of, (Secret) => malls_of],
    main = false
)]
async fn watches_some(_: Arc<Mall>) {}

fn holders_of(_: &PartialObjectMeta<Secret>, _: &Reader<Mall>) -> Option<ObjectKey> {
    None
}

#[kooper::controller(resource = [Mall, Stall], owns = [(Pod, labels = "a=b")], watches = [(ConfigMap, metadata_only) => kept], main = false)]
async fn related_some_of_each<K: Kind>(_: Arc<K>) {}

fn kept(_: &PartialObjectMeta<ConfigMap>) -> Option<ObjectKey> {
    None
}

#[kooper::controller(resource = Mall, watches = [ConfigMap => users_of, Secret => named, Secret => malls_of], main = false)]
async fn watches(_: Arc<Mall>) {}

fn users_of(map: &ConfigMap) -> Option<ObjectKey> {
    map.metadata.name.as_deref().map(|name| ObjectKey::namespaced("malls", name))
}

fn named(_: &Secret) -> Vec<ObjectKey> {
    Vec::new()
}

fn malls_of(_: &Secret, _: &Reader<Mall>) -> impl IntoIterator<Item = ObjectKey> + use<> {
    [ObjectKey::namespaced("malls", "one")]
}

#[kooper::controller(resource = [Mall, Stall], owns = [Pod], watches = [ConfigMap => users_of], main = false)]
async fn related_each<K: Kind>(_: Arc<K>) {}

#[kooper::controller(resource = Mall, samples = ["mall.yaml"], main = false)]
async fn samples(_: Arc<Mall>) {}

#[kooper::controller(resource = [Mall, Stall], samples = ["mall.yaml", "../pass/mall.yaml"], main = false)]
async fn samples_each<K: Kind>(_: Arc<K>) {}

#[kooper::controller(resource = Mall, sources = [orders, nothing, reloads], main = false)]
async fn sources(_: Arc<Mall>) {}

fn orders() -> impl Stream<Item = ObjectKey> {
    stream::iter([ObjectKey::namespaced("malls", "one")])
}

fn nothing() -> stream::Pending<ObjectKey> {
    stream::pending()
}

fn reloads() -> ReconcileAll<impl Stream<Item = ()>> {
    ReconcileAll(stream::iter([()]))
}

#[kooper::controller(resource = Mall, cleanup = tear_down, finalizer = "example.com/cleanup", main = false)]
async fn cleanup(_: Arc<Mall>) {}

async fn tear_down(_: Arc<Mall>, _: Call) -> Result<Action> {
    Ok(Action::done())
}

#[kooper::controller(resource = Pod, metadata_only, cleanup = say, finalizer = "example.com/cleanup", main = false)]
async fn cleanup_of_metadata(_: Arc<PartialObjectMeta<Pod>>) {}

async fn say(_: Arc<PartialObjectMeta<Pod>>) {}

#[kooper::controller(resource = Mall, labels = "a=b", cleanup = tear_down, finalizer = "a.b/c", on_leave = cleanup, main = false)]
async fn on_leave(_: Arc<Mall>) {}

#[kooper::controller(resource = Mall, while_deleting, main = false)]
async fn while_deleting(_: Arc<Mall>) {}

#[kooper::controller(resource = [Mall, Stall], cleanup = end, finalizer = "a.b/c", deleted = ended::<K>, main = false)]
async fn cleanup_each<K: Kind>(_: Arc<K>) {}

async fn end<K: Kind>(_: Arc<K>) {}

async fn ended<K: Kind>(_: Arc<K>, _: Gone) {}

#[kooper::controller(resource = Mall, previous_names = ["old-malls"], main = false)]
async fn with_a_previous_name(_: Arc<Mall>) {}

#[kooper::controller(resource = Mall, cleanup = tear_down, finalizer = "a.b/c", previous_finalizers = ["example.com/old"], main = false)]
async fn with_a_previous_finalizer(_: Arc<Mall>) {}

#[kooper::controller(resource = Mall, previous_names = ["old-malls"], previous_program = "older", main = false)]
async fn of_a_previous_program(_: Arc<Mall>) {}

#[kooper::controller(resource = Mall, init = connect, deleted = forget, main = false)]
async fn deleted(_: Arc<Mall>, _: State<String>) {}

async fn connect() -> Result<String> {
    Ok(String::new())
}

async fn forget(_: Call, _: Arc<Mall>, _: Gone, _: State<String>, _: Client) -> Result<()> {
    Ok(())
}

#[kooper::controller(resource = Mall, leader_election, main = false)]
async fn leader_election(_: Arc<Mall>) {}

#[kooper::controller(resource = Pod, leader_election(lease = "pods", namespace = "kube-system", renew_deadline = "9s",), main = false)]
async fn leader_election_with_names(_: Arc<Pod>) {}

#[kooper::controller(resource = Mall, leader_election(lease_duration = "30s", renew_deadline = "20s", retry_period = "5s"), main = false)]
async fn leader_election_with_timings(_: Arc<Mall>) {}

#[kooper::controller(resource = Mall, shards = 32, main = false)]
async fn shards(_: Arc<Mall>, _: Call) {}

#[kooper::controller(resource = Pod, shards(count = 64, by = namespace, members = 16, lease = "shops.pods", namespace = "kube-system", lease_duration = "30s", renew_deadline = "20s", retry_period = "5s",), main = false)]
async fn shards_with_settings(_: Arc<Pod>) {}

#[kooper::controller(resource = Pod, shards = 1, main = false)]
async fn one_shard() {}

#[kooper::controller(resource = [Mall, Pod], shards(count = 4, by = uid), main = false)]
async fn shards_each<K: Kind>(_: Arc<K>) {}

#[kooper::controller(resource = Mall, install_crd, main = false)]
async fn install_crd(_: Arc<Mall>) {}

#[kooper::controller(resource = [Mall, Stall], install_crd, main = false)]
async fn install_crd_each<K: Kind>(_: Arc<K>) {}

#[test]
fn each_is_defined() {
    assert_eq!(names::<optional>(), ["optional"]);
    assert_eq!(names::<optional_each>(), ["optional-each-mall", "optional-each-pod"]);
    assert_eq!(names::<secret>(), ["secret"]);
    assert_eq!(names::<owns>(), ["owns"]);
    assert_eq!(names::<watches>(), ["watches"]);
    assert_eq!(names::<related_each>(), ["related-each-mall", "related-each-stall"]);
    assert_eq!(names::<sources>(), ["sources"]);
    assert_eq!(names::<samples>(), ["samples"]);
    assert_eq!(names::<samples_each>(), ["samples-each-mall", "samples-each-stall"]);
    assert_eq!(names::<cleanup>(), ["cleanup"]);
    assert_eq!(names::<cleanup_of_metadata>(), ["cleanup-of-metadata"]);
    assert_eq!(names::<on_leave>(), ["on-leave"]);
    assert_eq!(names::<while_deleting>(), ["while-deleting"]);
    assert_eq!(names::<cleanup_each>(), ["cleanup-each-mall", "cleanup-each-stall"]);
    assert_eq!(names::<with_a_previous_name>(), ["with-a-previous-name"]);
    assert_eq!(names::<with_a_previous_finalizer>(), ["with-a-previous-finalizer"]);
    assert_eq!(names::<of_a_previous_program>(), ["of-a-previous-program"]);
    assert_eq!(names::<deleted>(), ["deleted"]);
    assert_eq!(names::<leader_election>(), ["leader-election"]);
    assert_eq!(names::<leader_election_with_names>(), ["leader-election-with-names"]);
    assert_eq!(names::<leader_election_with_timings>(), ["leader-election-with-timings"]);
    assert_eq!(names::<shards>(), ["shards"]);
    assert_eq!(names::<shards_with_settings>(), ["shards-with-settings"]);
    assert_eq!(names::<one_shard>(), ["one-shard"]);
    assert_eq!(names::<shards_each>(), ["shards-each-mall", "shards-each-pod"]);
    assert_eq!(names::<install_crd>(), ["install-crd"]);
    assert_eq!(names::<install_crd_each>(), ["install-crd-each-mall", "install-crd-each-stall"]);
}

#[test]
fn the_crd_of_a_kind_is_known_if_it_has_one() {
    use kooper::__private::v1::{crd, kind};

    assert!(crd(kind::<Pod>()).known_crd().is_none());
    let crd = crd(kind::<Mall>()).known_crd().expect("a derived kind has its CRD");
    assert_eq!(crd().metadata.name.as_deref(), Some("malls.example.com"));
}
