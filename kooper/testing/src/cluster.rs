//! A cluster for tests: an API server of its own, embedded or real.

mod arguments;
mod body;
mod controllers;
mod kill_layer;
mod real;
mod role;
mod run;
mod server;
mod settle;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kooper_apiserver::StoredObject;
use kooper_apiserver::faults::{Answered, Faults};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, Status};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use kooper_access::handler::Handler;
use kooper_access::internal::GivenSettings;
use kooper_access::internal::crd::is_established;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::{Action, Health, Kind, Result};

pub use arguments::LiveArguments;
#[doc(hidden)]
pub use body::{paused_test, test};
pub(super) use body::{program, runtime};
pub(super) use kill_layer::{KILLED, kill_layer};
pub use kooper_runtime::internal::object::named::Named;
pub use run::Running;
use server::Server;
pub(super) use settle::{State, Unsettled, is_noise, is_paused};

/// The name of the program of the controllers that run on a cluster, of its
/// ServiceAccount and of its roles; the field manager of what the test applies.
const PROGRAM: &str = "test";

/// The least time between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(10);

/// Pauses between two looks at the cluster. The longer a test waits, the longer it
/// pauses: a wait of a day, on a paused clock, takes a thousand looks.
pub(super) async fn pause(since: Instant) {
    tokio::time::sleep(PAUSE.max(since.elapsed() / 50)).await;
}

/// Default timeouts of the waits of a test. Other tests use the real server at the same time.
const TIMEOUT: Duration = Duration::from_secs(10);
const REAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster for tests, with an API server of its own: objects are validated,
/// stored, listed and watched, requests are authorized, and faults are injected on
/// demand. `kooper::test` starts one for each test. All
/// clones share one cluster.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::prelude::*;
/// use kooper::testing::Cluster;
///
/// /// A Secret for each ConfigMap.
/// #[kooper::controller(resource = ConfigMap, main = false)]
/// async fn passwords(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
///     let mut secret = Secret::default();
///     secret.metadata.name = Some(format!("{}-password", config.name_any()));
///     secrets.apply_owned(&config, &secret).await?;
///     Ok(())
/// }
///
/// #[kooper::test(passwords)]
/// async fn a_config_map_has_a_password(cluster: Cluster) -> Result<()> {
///     let mut shop = ConfigMap::default();
///     shop.metadata.name = Some("shop".into());
///     let shop = cluster.create(&shop).await?;
///
///     cluster.wait("shop-password", |_: &Secret| true).await;
///     cluster.delete(&shop).await?;
///     cluster.wait_deleted(&shop).await;
///     Ok(())
/// }
/// ```
///
/// Objects without a namespace are created in that of the test, [`namespace`](Self::namespace).
/// Faults apply to the requests of controllers and of [`client`](Self::client), not to
/// those of the other methods.
///
/// The cluster moves: pods are scheduled, run and become ready, without containers;
/// Deployments have ReplicaSets, and these have pods; pods that are deleted end at
/// once. On the real server, kube-controller-manager does the latter where it is
/// installed. The requests of these controllers meet no faults, and are in none of
/// the lists and metrics of the test.
///
/// A [`FakeCluster`](super::FakeCluster) is for a single call of a handler, and
/// shows what it sends. A `Cluster` is for what happens next.
#[derive(Clone, Debug)]
#[doc(alias = "envtest")]
pub struct Cluster {
    server: Arc<Server>,
    timeout: Duration,
    settings: GivenSettings,
}

/// The user of the controllers that run on a cluster.
pub(super) const CONTROLLERS: &str = "system:serviceaccount:default:test";

impl Cluster {
    /// Starts a cluster: an embedded API server, ready within milliseconds, or,
    /// with `KOOPER_TEST_SERVER=real`, a namespace of the real one.
    ///
    /// # Errors
    /// When the server cannot be started.
    pub async fn start() -> Result<Self> {
        Ok(Self::on(Server::start().await?, GivenSettings::default()))
    }

    fn on(server: Server, settings: GivenSettings) -> Self {
        let timeout = if server.is_shared() { REAL_TIMEOUT } else { TIMEOUT };
        Self { server: Arc::new(server), timeout, settings }
    }

    /// Sets how long waits of this clone take before they fail. Default: 10 seconds, and 60 on the real server.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The previous name of [`with_timeout`](Self::with_timeout).
    #[deprecated = "use `with_timeout`"]
    #[must_use]
    pub fn with_patience(self, timeout: Duration) -> Self {
        self.with_timeout(timeout)
    }

    /// Gives the controllers that this clone runs the program's settings, which
    /// their handlers take as [`Settings<T>`](kooper_access::Settings).
    #[must_use]
    pub fn with_settings<T: Send + Sync + 'static>(mut self, settings: T) -> Self {
        self.settings.give(settings);
        self
    }

    /// Stops the controllers that simulate the rest of a cluster: from here on, pods
    /// and workloads are only what the test makes of them. It is for tests that set
    /// the status of a pod or a Deployment themselves, and is called before the
    /// first one is created. See [`Cluster`].
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use serde_json::json;
    /// # async fn stop(cluster: kooper::testing::Cluster, pod: Pod) -> kooper::Result<()> {
    /// cluster.stop_workloads().await;
    /// let pod = cluster.create(&pod).await?;
    /// cluster.patch_status(&pod, json!({"status": {"phase": "Failed"}})).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On the real server, kube-controller-manager continues.
    pub async fn stop_workloads(&self) {
        self.server.stop_workloads().await;
    }

    /// A cluster with settings, for each history of an exploration.
    pub(super) async fn with(settings: GivenSettings) -> Result<Self> {
        Ok(Self { settings, ..Self::start().await? })
    }

    /// Returns whether the environment selects the real server.
    pub(super) fn is_real() -> bool {
        Server::is_real()
    }

    /// Notes controllers that run, so that a wait that fails shows their problems.
    pub(super) fn note_controllers(&self, health: &Health) {
        self.server.controllers().add(health);
    }

    /// Everything that is stored.
    pub(super) fn objects(&self) -> Vec<StoredObject> {
        self.server.objects().unwrap_or_default()
    }

    pub(super) fn object(&self, group: &str, resource: &str, key: &str) -> Option<StoredObject> {
        self.server.object(group, resource, key)
    }

    /// The version of the last write.
    pub(super) fn version(&self) -> u64 {
        self.server.version()
    }

    /// A client of the user of the controllers.
    pub(super) fn controllers_client(&self) -> Result<Client> {
        self.server.client_of_account(PROGRAM)
    }

    /// A client of a user with all permissions. Its namespace is that of the test.
    #[must_use]
    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// The namespace of the test: `default`, or on the real server one that no
    /// other test uses.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.server.namespace()
    }

    /// The faults that the server injects, see [`kooper_apiserver::faults`].
    ///
    /// # Panics
    /// On the real server, which injects none: a test of
    /// `kooper::test` is skipped there instead.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.server.faults()
    }

    /// The last requests to the server and how they were answered, at most a
    /// hundred, those of these methods excluded; on the real server none.
    #[must_use]
    pub fn requests(&self) -> Vec<Answered> {
        self.server.requests()
    }

    /// Creates an object and returns it as it was stored.
    ///
    /// # Errors
    /// The error of the server, such as 409 if it exists.
    pub async fn create<T: Kind + Serialize>(&self, object: &T) -> kube::Result<T> {
        let document = self.document(object)?;
        let api = self.api::<T>(document.metadata.namespace.as_deref());
        decode(api.create(&PostParams::default(), &document).await?)
    }

    /// Applies an object, with server-side apply as the field manager `test`,
    /// and returns it as it was stored. Fields of other managers are overridden.
    ///
    /// # Errors
    /// The error of the server, such as 409 for an object that was read and has changed since.
    pub async fn apply<T: Kind + Serialize>(&self, object: &T) -> kube::Result<T> {
        let mut document = self.document(object)?;
        // An object that was read has them, and no apply may.
        document.metadata.managed_fields = None;
        let (api, name) = self.place_of(object);
        decode(api.patch(&name, &PatchParams::apply(PROGRAM).force(), &Patch::Apply(&document)).await?)
    }

    /// Changes an object by a merge patch, and returns it as it was stored.
    ///
    /// # Errors
    /// The error of the server, such as 404 if it does not exist.
    pub async fn patch<T: Kind>(&self, object: &T, patch: Value) -> kube::Result<T> {
        let (api, name) = self.place_of(object);
        decode(api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Changes the status of an object by a merge patch: `json!({"status": …})`.
    ///
    /// # Errors
    /// The error of the server, such as 404 if the kind has no status subresource.
    pub async fn patch_status<T: Kind>(&self, object: &T, patch: Value) -> kube::Result<T> {
        let (api, name) = self.place_of(object);
        decode(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Gets an object by its name, its key, or an earlier state of it.
    ///
    /// # Errors
    /// The error of the server. An object that does not exist is `None`.
    pub async fn get<T: Kind>(&self, object: impl Named) -> kube::Result<Option<T>> {
        let key = object.key_in(self.namespace(), KindInfo::of::<T>().namespaced);
        self.api::<T>(key.namespace()).get_opt(key.name()).await?.map(decode).transpose()
    }

    /// Lists the objects of a kind in the test's namespace; of a cluster-scoped
    /// kind, all of them.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn list<T: Kind>(&self) -> kube::Result<Vec<T>> {
        let list = self.api::<T>(Some(self.namespace())).list(&ListParams::default()).await?;
        list.items.into_iter().map(decode).collect()
    }

    /// Deletes an object, and its dependents after it, as kubectl does. It may exist until its finalizers are
    /// removed, see [`wait_deleted`](Self::wait_deleted).
    ///
    /// # Errors
    /// The error of the server, such as 404 if it does not exist.
    pub async fn delete<T: Kind>(&self, object: &T) -> kube::Result<()> {
        let (api, name) = self.place_of(object);
        // Without a policy, the pods of a Job would be orphaned.
        api.delete(&name, &DeleteParams::background()).await.map(drop)
    }

    /// Installs a CRD, and returns when its kind is served. Those of the
    /// controllers that run on the cluster are installed already.
    ///
    /// ```no_run
    /// # use kooper::kube::{self, CustomResource, CustomResourceExt as _};
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    /// # #[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
    /// # struct ShopSpec {}
    /// # async fn install(cluster: kooper::testing::Cluster) -> kube::Result<()> {
    /// cluster.install_crd(&Shop::crd()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the server, also when the CRD is not established in time.
    pub async fn install_crd(&self, crd: &CustomResourceDefinition) -> kube::Result<()> {
        let crd = self.apply(crd).await?;
        let since = Instant::now();
        loop {
            let established = match self.get::<CustomResourceDefinition>(&crd).await? {
                Some(crd) => is_established(&crd),
                None => Err("it was deleted".to_owned()),
            };
            let Err(reason) = established else { return Ok(()) };
            if since.elapsed() >= self.timeout {
                let name = crd.metadata.name.as_deref().unwrap_or_default();
                let message = format!("the CRD `{name}` is not established: {reason}");
                return Err(kube::Error::Api(Status::failure(&message, "Timeout").with_code(504).boxed()));
            }
            pause(since).await;
        }
    }

    /// The arguments of a call for this object, each as the cluster is now.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::prelude::*;
    /// use kooper::testing::Cluster;
    ///
    /// async fn sweep(config: Arc<ConfigMap>, secrets: Reader<Secret>, deleter: Deleter<Secret>) -> Result<()> {
    ///     for secret in secrets.list() {
    ///         deleter.delete(secret.key()).await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let cluster = Cluster::start().await?;
    /// let mut secret = Secret::default();
    /// secret.metadata.name = Some("old".into());
    /// let secret = cluster.create(&secret).await?;
    /// let mut config = ConfigMap::default();
    /// config.metadata.name = Some("shop".into());
    /// let config = Arc::new(cluster.create(&config).await?);
    ///
    /// let arguments = cluster.arguments(&config);
    /// sweep(config.clone(), arguments.take().await, arguments.take().await).await?;
    ///
    /// cluster.wait_deleted(&secret).await;
    /// # Ok::<_, kooper::BoxError>(())
    /// # })?;
    /// # Ok::<_, kooper::BoxError>(())
    /// ```
    pub fn arguments<O: Kind>(&self, object: &Arc<O>) -> LiveArguments<O> {
        LiveArguments::new(self.clone(), object.clone())
    }

    /// Calls a handler for this object, with all of its arguments, and returns its
    /// result: `cluster.call(redis, &object).await?`. See [`arguments`](Self::arguments)
    /// for single ones.
    ///
    /// # Errors
    /// When the handler fails.
    ///
    /// # Panics
    /// If what a reader reads cannot be listed.
    pub async fn call<O: Kind, H: Handler<O, (), Args>, Args>(&self, handler: H, object: &Arc<O>) -> Result<Action> {
        self.arguments(object).call(handler).await
    }

    /// The API of a kind in a namespace, by a client that meets no faults.
    fn api<T: Kind>(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<T>(&());
        match namespace.filter(|_| KindInfo::of::<T>().namespaced) {
            Some(namespace) => Api::namespaced_with(self.server.test_client(), namespace, &resource),
            None => Api::all_with(self.server.test_client(), &resource),
        }
    }

    /// Where an object is, and its name.
    fn place_of<T: Kind>(&self, object: &T) -> (Api<DynamicObject>, String) {
        let key = object.key_in(self.namespace(), KindInfo::of::<T>().namespaced);
        (self.api::<T>(key.namespace()), key.name().to_owned())
    }

    /// An object as a document of its kind, in its namespace or the test's.
    fn document<T: Kind + Serialize>(&self, object: &T) -> kube::Result<DynamicObject> {
        let kind = KindInfo::of::<T>();
        let mut document = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
        document["apiVersion"] = kind.api_version().into();
        document["kind"] = kind.kind.as_str().into();
        let metadata = &mut document["metadata"];
        if kind.namespaced && metadata["namespace"].as_str().is_none_or(str::is_empty) {
            metadata["namespace"] = self.namespace().into();
        }
        serde_json::from_value(document).map_err(kube::Error::SerdeError)
    }
}

/// An object of the server as its type.
fn decode<T: Kind>(object: DynamicObject) -> kube::Result<T> {
    object.try_parse().map_err(|error| kube::Error::Service(Box::new(error)))
}
