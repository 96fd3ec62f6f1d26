//! Clusters for tests of handlers and controllers.
//!
//! [`FakeCluster`] holds the objects that a test puts into it, and records and
//! answers the requests of a handler. Nothing is listed, watched or queued: to
//! test a whole controller, see
//! [`retriever::channel`](kooper_access::retriever::channel), or, with the feature
//! `apiserver`, `Cluster`, which runs an API server, and `Exploration`, which tries
//! what goes wrong at every point of a scenario.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod arguments;
#[cfg(feature = "apiserver")]
mod cluster;
#[cfg(feature = "apiserver")]
mod explore;
mod metadata;
mod reply;
mod sent;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::Client;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use kooper_access::Controller;
use kooper_access::events::EventSink;
use kooper_access::extract::ControllerContext;
use kooper_access::handler::Handler;
use kooper_access::internal::{GivenSettings, extensions};
use kooper_access::plan::Plan;
use kooper_runtime::internal::call::Tasks;
use kooper_runtime::internal::call::extensions::Extensions;
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::internal::watch::cache_id::CacheId;
use kooper_runtime::internal::watch::selected::Selected;
use kooper_runtime::internal::watch::store::{Cache, Store};
use kooper_runtime::object::Object;
use kooper_runtime::{Action, Call, Kind, ObjectKey, Reason, Reasons, Result};

pub use arguments::Arguments;
#[cfg(feature = "apiserver")]
pub use cluster::{Cluster, LiveArguments, Named, Running};
#[cfg(feature = "apiserver")]
#[doc(hidden)]
pub use cluster::{paused_test, test};
#[cfg(feature = "apiserver")]
#[doc(hidden)]
pub use explore::explore;
#[cfg(feature = "apiserver")]
pub use explore::{Exploration, Explored, Finding, Oracle, ScenarioResult};
pub use kooper_access::events::Note;
pub use reply::Reply;
pub use sent::Sent;

/// A cluster for unit tests: it holds objects, and records and answers the
/// requests that handlers send. All clones share one cluster.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use kooper::prelude::*;
/// use kooper::testing::FakeCluster;
///
/// async fn password(config: Arc<ConfigMap>, secrets: OwnedApplier<Secret>) -> Result<()> {
///     let mut secret = Secret::default();
///     secret.metadata.name = Some(format!("{}-password", config.name_any()));
///     secrets.apply_owned(&config, &secret).await?;
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let cluster = FakeCluster::new();
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("shop".to_owned());
/// let config = cluster.put(&config)?;
///
/// let action = cluster.call(password, &config).await?;
/// assert_eq!(action, Action::done());
///
/// assert_eq!(cluster.summary(), ["apply secrets default/shop-password"]);
/// # Ok::<_, kooper::BoxError>(())
/// # })?;
/// # Ok::<_, kooper::BoxError>(())
/// ```
///
/// # Responses
///
/// Unless a test sets another response with [`reply`](Self::reply):
///
/// | request | response |
/// |---|---|
/// | get, delete, patch, a write of a status | of an object that was put; 404 if there is none |
/// | create | the object that was sent, without its status; 409 if one of that name exists |
/// | update | the object that was sent, with the status of the one that was put; 404 if there is none |
/// | apply | the object that was sent, with the status of the one that was put |
/// | merge patch | the object that was put, changed by the patch except for the status |
/// | JSON patch, strategic merge patch | the object that was put, unchanged |
/// | eviction | a success |
/// | anything else, such as list and watch | 501 |
/// | `resourceVersion` or `uid` in a write, or in the preconditions of a delete | not compared: there is no conflict |
///
/// A write does not change the cluster: the next call finds the objects that
/// the test has put there. In a response, `uid`, `creationTimestamp`, `generation` and
/// `deletionTimestamp` are the server's: a creation gets new ones, and an update or merge
/// patch that changes more than metadata and status the next generation. Server-side apply
/// is not emulated: the fields of other managers are neither kept nor removed, and the
/// generation stays.
#[derive(Debug, Clone, Default)]
#[doc(alias = "fake client")]
#[doc(alias = "mock")]
pub struct FakeCluster {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The objects, by group and plural of their kind.
    stores: Mutex<HashMap<(String, String), Arc<Store>>>,
    /// The last uid or resource version that was assigned.
    last: AtomicU64,
    sent: Mutex<Vec<Sent>>,
    replies: Mutex<Vec<reply::ReplyRule>>,
    events: Arc<Mutex<Vec<Note>>>,
    /// The states of controllers.
    shared: Arc<Extensions>,
    settings: Mutex<GivenSettings>,
}

impl FakeCluster {
    /// A cluster without objects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts an object into the cluster, replaces the one of its name, and returns
    /// it as a handler receives it. The object gets a new resource version. If it has
    /// none, it gets a uid, a creation time and, if its kind is namespaced, the
    /// namespace `default`. If its kind has generations, it gets the next one when
    /// anything but metadata and status has changed, unless the test sets a later one.
    ///
    /// # Errors
    /// When it has no name, or cannot be serialized to JSON and back.
    pub fn put<T: Kind + Serialize>(&self, object: &T) -> Result<Arc<T>> {
        let kind = KindInfo::of::<T>();
        let mut json = serde_json::to_value(object)?;
        json["apiVersion"] = kind.api_version().into();
        json["kind"] = kind.kind.as_str().into();
        let metadata = &mut json["metadata"];
        if kind.namespaced && metadata["namespace"].as_str().is_none_or(str::is_empty) {
            metadata["namespace"] = "default".into();
        }
        let store = self.inner.store(&kind.group, &kind.plural);
        let name = metadata["name"].as_str().unwrap_or_default();
        let before = store.get(&ObjectKey::new(metadata["namespace"].as_str(), name));
        let before = before.map_or(Ok(Value::Null), |before| serde_json::from_slice(&before.json()))?;
        self.inner.complete(&mut json, (&kind.group, &kind.plural), &before);
        let object = Object::parse(json.to_string().as_bytes())?;
        let decoded = object.decode()?;
        store.put(object);
        Ok(Arc::new(decoded))
    }

    /// Removes an object from the cluster.
    pub fn remove<T: Kind>(&self, key: &ObjectKey) {
        let kind = KindInfo::of::<T>();
        let store = self.inner.store(&kind.group, &kind.plural);
        if let Some(object) = store.get(key).and_then(|object| Object::parse(&object.json()).ok()) {
            store.remove(object);
        }
    }

    /// Answers requests with the return value of the closure. If it is `None`, the
    /// replies that were set before apply, and then the table above.
    ///
    /// ```
    /// use kooper::testing::{FakeCluster, Reply};
    ///
    /// let cluster = FakeCluster::new();
    /// cluster.reply(|sent| {
    ///     (sent.verb == "apply").then(|| Reply::rejected(403, "Forbidden", "exceeded quota: pods"))
    /// });
    /// ```
    pub fn reply(&self, reply: impl Fn(&Sent) -> Option<Reply> + Send + Sync + 'static) {
        self.inner.replies.lock().push(Arc::new(reply));
    }

    /// Gives handlers the program's settings, which they take as
    /// [`Settings<T>`](kooper_access::Settings). Settings of the same type are replaced.
    ///
    /// ```
    /// use kooper::testing::FakeCluster;
    ///
    /// struct ShopSettings {
    ///     greeting: String,
    /// }
    ///
    /// let cluster = FakeCluster::new();
    /// cluster.settings(ShopSettings { greeting: "hello".to_owned() });
    /// ```
    pub fn settings<T: Send + Sync + 'static>(&self, settings: T) {
        self.inner.settings.lock().give(settings);
    }

    /// Calls a handler for this object, with all of its arguments, and returns its
    /// result. See [`arguments`](Self::arguments) for single ones, and for a handler that
    /// takes a [`State`](kooper_access::State):
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kooper::prelude::*;
    /// use kooper::testing::FakeCluster;
    ///
    /// async fn greet(pod: Arc<Pod>, greeting: State<String>, recorder: Recorder) {
    ///     recorder.normal("Greeted", format!("{}, {}", *greeting, pod.name_any()));
    /// }
    ///
    /// let cluster = FakeCluster::new();
    /// let mut pod = Pod::default();
    /// pod.metadata.name = Some("web".into());
    /// let pod = cluster.put(&pod)?;
    /// let action = cluster.arguments(&pod).state(State::new("hello".to_owned())).call(greet).await?;
    ///
    /// assert_eq!(action, Action::done());
    /// assert_eq!(cluster.events()[0].to_string(), "Normal Greeted: hello, web");
    /// # Ok::<_, kooper::BoxError>(())
    /// # })?;
    /// # Ok::<_, kooper::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// When the handler fails.
    pub async fn call<O: Kind, H: Handler<O, (), Args>, Args>(&self, handler: H, object: &Arc<O>) -> Result<Action> {
        self.arguments(object).call(handler).await
    }

    /// The arguments of a call for this object, each by itself.
    pub fn arguments<O: Kind>(&self, object: &Arc<O>) -> Arguments<O> {
        Arguments::new(self.clone(), object.clone())
    }

    /// A client of this cluster. It must be created within a tokio runtime, such as
    /// that of `#[tokio::test]`.
    #[must_use]
    pub fn client(&self) -> Client {
        answer::client(&self.inner)
    }

    /// Calls a controller for the object of this key once, as a worker does:
    /// with its state, layers, `when`, `pause`, finalizer and `cleanup`. A failure is
    /// returned and not retried. A state is built once for each cluster. The API server
    /// applies the controller's `labels`, `fields` and `namespaces`, and this cluster does not.
    ///
    /// # Errors
    /// When the cluster has no such object, it does not decode as the controller's
    /// type, settings are missing, or `init`, the handler or `cleanup` fails.
    pub async fn reconcile(&self, controller: &Controller, key: &ObjectKey) -> Result<Action> {
        controller.check_settings(&self.inner.settings.lock())?;
        let (name, kind, primary) = (controller.name(), controller.kind_info().clone(), controller.primary());
        let context = self.context(name, kind, primary, controller.plan());
        let found = context.cache(primary).get(key);
        let object = found
            .ok_or_else(|| format!("the cluster has no {} `{key}`: add it with `put` first", controller.kind()))?;
        let call = call(name, key.clone(), 1, CancellationToken::new());
        controller.call_once(context, self.inner.shared.clone(), object, call).await
    }

    /// The requests that were sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.inner.sent.lock().clone()
    }

    /// The requests that were sent, each in a line such as
    /// `apply deployments.apps default/web`.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        self.inner.sent.lock().iter().map(ToString::to_string).collect()
    }

    /// The objects of a kind that were created or applied, as they were sent.
    ///
    /// # Errors
    /// When one does not decode as the type.
    pub fn written<T: Kind>(&self) -> Result<Vec<T>> {
        let sent = self.inner.sent.lock();
        let written = sent.iter().filter(|sent| sent.is_of::<T>() && matches!(sent.verb, "create" | "apply"));
        written.filter(|sent| sent.subresource.is_none()).map(Sent::decode).collect()
    }

    /// The Kubernetes Events that were recorded, in order.
    #[must_use]
    pub fn events(&self) -> Vec<Note> {
        self.inner.events.lock().clone()
    }

    /// Forgets the requests and Events; the objects and replies remain.
    pub fn forget(&self) {
        self.inner.sent.lock().clear();
        self.inner.events.lock().clear();
    }

    fn context(&self, controller: &str, kind: KindInfo, primary: CacheId, plan: &Plan) -> ControllerContext {
        let own = (primary, kind.clone(), self.inner.cache(&kind));
        let others = plan.caches().map(|request| {
            let cache = self.inner.cache(&request.kind);
            (request.id, request.kind.clone(), selecting(cache, request.id.selected))
        });
        let caches = [own].into_iter().chain(others).collect();
        let events = Arc::new(EventSink::recorded(self.inner.events.clone()));
        let extensions = extensions(plan, self.inner.settings.lock().clone());
        let detached = ControllerContext::detached(kind, primary, caches);
        detached.connected("test", controller, self.client(), events, extensions)
    }
}

/// The objects of a cache that are selected now.
fn selecting(all: Cache, only: Option<&Selected>) -> Cache {
    let Some(only) = only else { return all };
    let store = Store::default();
    let selected = all.all(None).into_iter().filter(|object| only.admits(object.key()) && only.selects(object));
    for object in selected {
        if let Ok(object) = Object::parse(&object.json()) {
            store.put(object);
        }
    }
    Cache::new([(None, Arc::new(store))])
}

impl Inner {
    fn store(&self, group: &str, plural: &str) -> Arc<Store> {
        self.stores.lock().entry((group.to_owned(), plural.to_owned())).or_default().clone()
    }

    fn cache(&self, kind: &KindInfo) -> Cache {
        Cache::new([(None, self.store(&kind.group, &kind.plural))])
    }

    /// A resource version that no object has yet. It is larger than the first ones of
    /// a real server, and `1` means that there is no object.
    fn version(&self) -> Value {
        (1000 + self.next()).to_string().into()
    }

    fn uid(&self) -> Value {
        format!("00000000-0000-0000-0000-{:012}", self.next()).into()
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

kooper_runtime::internal::debug_fields! { Inner { sent } }

fn call(controller: &str, key: ObjectKey, attempt: u32, cancelled: CancellationToken) -> Call {
    let mut reasons = Reasons::default();
    reasons.add(if attempt == 1 { Reason::Added } else { Reason::Retry });
    Call::new(controller.into(), key, attempt, reasons, cancelled, Tasks::default())
}

#[cfg(test)]
mod tests;
