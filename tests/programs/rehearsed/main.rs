//! A program that writes in every way, for the tests of `run --dry-run` and `diff`.
//!
//! A `Shop` has a ConfigMap and a Secret of its own, a status and a finalizer. A second controller handles the
//! ConfigMaps, those of the dry run included. A third one declares children of ServiceAccounts.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kooper::__private::v1::{Definition, Program};
use kooper::Controller;
use kooper::capability::PatchBody;
use kooper::children::{SlotExt, declare};
use kooper::leader::LeaderElection;
use kooper::prelude::*;
use kube::CustomResource;
use kube::api::{Api, PostParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "rehearsed.example.com", version = "v1", kind = "Shop", namespaced, status = "ShopStatus")]
struct ShopSpec {
    /// The greeting on its door.
    #[serde(default)]
    greeting: String,
    /// `true` if its handler fails.
    #[serde(default)]
    fails: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct ShopStatus {
    greeting: Option<String>,
    /// The state that the handler saw after its writes.
    seen: Option<String>,
}

struct Rehearsed;

/// Result of `init`.
struct Opened;

async fn init(secrets: Creator<Secret>) -> Result<Opened> {
    let mut secret = Secret::default();
    secret.metadata.name = Some("init".into());
    secret.metadata.namespace = Some("trade".into());
    match secrets.create(&secret).await {
        Ok(_) => Ok(Opened),
        Err(error) if error.is_conflict() => Ok(Opened),
        Err(error) => Err(error.into()),
    }
}

fn config(shop: &Shop, text: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(format!("{}-config", shop.name_any()));
    config.metadata.labels = Some([("shop".to_owned(), "yes".to_owned())].into());
    config.data = Some([("greeting".to_owned(), text.to_owned())].into());
    config
}

#[expect(clippy::too_many_arguments, reason = "each is a way to write")]
async fn open(
    shop: Arc<Shop>,
    call: Call,
    configs: OwnedApplier<ConfigMap>,
    cached: Reader<ConfigMap>,
    secrets: OwnedApplier<Secret>,
    creator: Creator<Secret>,
    getter: Getter<Secret>,
    deleter: Deleter<ConfigMap>,
    statuses: StatusWriter<Shop>,
    events: Recorder,
    _state: State<Opened>,
) -> Result<Action> {
    tracing::warn!(dry_run = call.is_dry_run(), "opens {}", shop.name_any());
    if shop.spec.fails {
        return Err("the door is stuck".into());
    }
    configs.apply_owned(&*shop, &config(&shop, "hello")).await?;
    configs.apply_owned(&*shop, &config(&shop, &shop.spec.greeting)).await?;
    let key = ObjectKey::new(shop.namespace().as_deref(), &format!("{}-config", shop.name_any()));
    let in_cache = cached.get(&key)?.and_then(|config| config.data.clone()).unwrap_or_default();

    let mut secret = Secret::default();
    secret.metadata.name = Some(format!("{}-secret", shop.name_any()));
    secret.string_data = Some([("password".to_owned(), "canary".to_owned())].into());
    secrets.apply_owned(&*shop, &secret).await?;
    let key = ObjectKey::new(shop.namespace().as_deref(), &format!("{}-secret", shop.name_any()));
    let fetched = getter.fetch(&key).await?.is_some();
    // It exists, if only in the dry run.
    secret.metadata.owner_references = None;
    let twice = creator.create(&secret).await.err().is_some_and(|error| error.is_conflict());

    deleter.delete(&ObjectKey::new(shop.namespace().as_deref(), "stale")).await?;
    deleter.delete(&ObjectKey::new(shop.namespace().as_deref(), "stale")).await?;
    events.normal("Opened", "The shop is open.");
    let seen = format!("{} in the cache, fetched {fetched}, twice {twice}", in_cache["greeting"]);
    let greeting = Some(shop.spec.greeting.clone());
    statuses.apply_status(&*shop, &ShopStatus { greeting, seen: Some(seen) }).await?;
    Ok(Action::requeue_after(Duration::from_millis(10)))
}

async fn close(shop: Arc<Shop>, deleter: Deleter<ConfigMap>) -> Result<()> {
    let key = ObjectKey::new(shop.namespace().as_deref(), &format!("{}-config", shop.name_any()));
    Ok(deleter.delete(&key).await?)
}

/// Labels each ConfigMap, and does what needs a client of its own.
async fn label(config: Arc<ConfigMap>, configs: Patcher<ConfigMap>, client: Client) -> Result<()> {
    let patch = PatchBody::merge(json!({"metadata": {"annotations": {"handled": "yes"}}}));
    configs.patch_object(&*config, patch).await?;
    let namespace = config.namespace().unwrap_or_default();
    let mut copy = (*config).clone();
    copy.metadata = kube::api::ObjectMeta { name: Some(format!("{}-copy", config.name_any())), ..Default::default() };
    let all: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    all.create(&PostParams::default(), &copy).await?;
    let listed = all.list(&Default::default()).await?;
    assert!(listed.items.iter().any(|one| one.metadata.name == copy.metadata.name), "the list has the copy");
    // It would run a command in a container.
    let exec = http(&format!("/api/v1/namespaces/{namespace}/pods/web/exec?command=rm"));
    let refused = client.request_text(exec).await.expect_err("it is not sent");
    assert!(refused.to_string().contains("dry run"), "{refused}");
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    pods.list(&Default::default()).await?;
    Ok(())
}

fn http(path: &str) -> http::Request<Vec<u8>> {
    http::Request::post(path).body(Vec::new()).expect("a request")
}

/// The child of a ServiceAccount.
fn key(account: &ServiceAccount) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(format!("{}-key", account.name_any()));
    secret
}

/// Waits for the child.
fn lock(account: &ServiceAccount, key: &Secret) -> Secret {
    let mut secret = key.clone();
    secret.metadata =
        kube::api::ObjectMeta { name: Some(format!("{}-lock", account.name_any())), ..Default::default() };
    secret
}

impl Definition for Rehearsed {
    fn define(program: &mut Program) {
        let shops = Controller::builder::<Shop>("shops").crd().install_crd().leader_election(LeaderElection::default());
        program.add(shops.init(init).handler(open).cleanup("rehearsed.example.com/shop", close));
        let configs = Controller::builder::<ConfigMap>("configs").labels("shop=yes");
        program.add(configs.rbac(["configmaps: create, list", "pods: list", "pods/exec: create"]).handler(label));
        let children = declare().child(key).child(lock.with((key,))).build().expect("the slots are right");
        let accounts = Controller::builder::<ServiceAccount>("accounts").labels("locked=yes");
        program.add(accounts.handler(children.handler(async || {})));
    }
}

kooper::main!(Rehearsed);
