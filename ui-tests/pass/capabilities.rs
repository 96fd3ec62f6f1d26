//! Every capability is an argument of a handler, of `init`, and of the functions of `cleanup` and `deleted`.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kooper::capability::{All, Subset};
use kooper::prelude::*;

use crate::names;

#[kooper::controller(
    resource = Service,
    init = connect,
    cleanup = take_down,
    finalizer = "example.com/services",
    deleted = forget,
    main = false
)]
async fn reading(_: Arc<Service>, configs: Reader<ConfigMap>, secrets: Getter<Secret>, _: State<u32>) -> Result<()> {
    let key = ObjectKey::namespaced("shop", "one");
    let _ = (configs.get(&key)?, configs.list().count(), secrets.fetch(&key).await?);
    Ok(())
}

async fn connect(_: Client, _: Reader<ConfigMap>, _: Getter<Secret>, _: Creator<Secret>) -> Result<u32> {
    Ok(0)
}

async fn take_down(_: Arc<Service>, _: Reader<ConfigMap>, _: Getter<Secret>, _: Creator<Secret>) {}

async fn forget(_: Gone, _: Reader<ConfigMap>, _: Getter<Secret>, _: Creator<Secret>) {}

#[kooper::controller(
    resource = Service,
    init = prepare,
    cleanup = write_last,
    finalizer = "example.com/services",
    deleted = write_last,
    main = false
)]
#[expect(clippy::too_many_arguments, reason = "each argument is what the case is about")]
async fn writing(
    service: Arc<Service>,
    creator: Creator<Secret>,
    children: OwnedApplier<Secret>,
    patcher: Patcher<Secret>,
    deleter: Deleter<Secret>,
    statuses: StatusWriter<Service>,
    evictor: Evictor,
    recorder: Recorder,
) -> Result<()> {
    let secret = Secret::default();
    creator.create(&secret).await?;
    children.apply_owned(&*service, &secret).await?;
    children.adopt(&*service, &secret).await?;
    patcher.patch_object(&secret, kooper::capability::PatchBody::merge(serde_json::json!({}))).await?;
    deleter.delete_unchanged(&secret).await?;
    statuses.apply_status(&service, &Default::default()).await?;
    evictor.evict(&Pod::default()).await?;
    recorder.normal("Done", "all of it");
    Ok(())
}

async fn prepare(
    _: Applier<Secret>,
    _: OwnedApplier<Secret>,
    _: Patcher<Secret>,
    _: Deleter<Secret>,
    _: StatusWriter<Service>,
    _: Evictor,
) -> Result<()> {
    Ok(())
}

async fn write_last(
    _: Applier<Secret>,
    _: OwnedApplier<Secret>,
    _: Patcher<Secret>,
    _: Deleter<Secret>,
    _: StatusWriter<Service>,
    _: Evictor,
    _: Recorder,
) {
}

/// The Secrets of the shop.
struct OfShop;

impl Subset for OfShop {
    type Object = Secret;

    fn select(all: All<Secret>) -> All<Secret> {
        all.labels("app=shop")
    }
}

/// The certificate's metadata.
struct Certificate;

impl Subset for Certificate {
    type Object = PartialObjectMeta<Secret>;

    fn select(all: All<Self::Object>) -> All<Self::Object> {
        all.names(["certificate"]).namespaces(["shop"])
    }
}

#[kooper::controller(resource = Service, init = prepare_some, main = false)]
async fn reading_some(
    _: Arc<Service>,
    secrets: Reader<Secret, OfShop>,
    metadata: Reader<PartialObjectMeta<Secret>>,
    certificate: Getter<PartialObjectMeta<Secret>, Certificate>,
    _: Reader<PartialObjectMeta<Secret>, Certificate>,
    _: State<usize>,
) -> Result<()> {
    let key = ObjectKey::namespaced("shop", "certificate");
    let _ = (secrets.get(&key)?, metadata.list().count(), certificate.fetch(&key).await?);
    Ok(())
}

async fn prepare_some(secrets: Reader<Secret, OfShop>) -> Result<usize> {
    Ok(secrets.list().count())
}

#[kooper::controller(
    resource = Service,
    reads = [(Secret, labels = "app=shop"), (Pod, fields = "status.phase=Running", metadata_only), (ConfigMap, secret)],
    init = prepare_selected,
    cleanup = read_last,
    finalizer = "example.com/services",
    main = false
)]
async fn reading_selected(
    _: Arc<Service>,
    _: Reader<Secret>,
    _: Reader<Secret, OfShop>,
    _: Reader<PartialObjectMeta<Pod>>,
) {
}

async fn prepare_selected(_: Reader<Secret>) -> Result<()> {
    Ok(())
}

async fn read_last(_: Arc<Service>, _: Reader<ConfigMap>) {}

/// A name for the argument, which the attribute cannot look into.
type Secrets = Reader<Secret>;

#[kooper::controller(resource = Service, reads = [(Secret, labels = "app=shop")], main = false)]
async fn reading_by_an_alias(_: Arc<Service>, _: Secrets) {}

#[kooper::controller(resource = [Pod, Service], reads = [(K, labels = "app=shop")], main = false)]
async fn each_selected<K: Kind>(_: Arc<K>, _: Reader<K>) {}

/// The kind of a capability may be a type parameter.
#[kooper::controller(resource = [Pod, Service], main = false)]
async fn each<K: Kind>(_: Arc<K>, _: Reader<K>, _: Deleter<K>) {}

#[test]
fn each_is_defined() {
    assert_eq!(names::<reading>(), ["reading"]);
    assert_eq!(names::<reading_some>(), ["reading-some"]);
    assert_eq!(names::<reading_selected>(), ["reading-selected"]);
    assert_eq!(names::<reading_by_an_alias>(), ["reading-by-an-alias"]);
    assert_eq!(names::<each_selected>(), ["each-selected-pod", "each-selected-service"]);
    assert_eq!(names::<writing>(), ["writing"]);
    assert_eq!(names::<each>(), ["each-pod", "each-service"]);
}
