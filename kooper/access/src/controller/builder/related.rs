//! Other sources of keys: children, related objects, external streams.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use kooper_runtime::internal::controller::parts::{MapKeys, Mapping, Relation, Trigger};
use kooper_runtime::internal::object::kind::KindInfo;
use kooper_runtime::object::Object;
use kooper_runtime::{ControllerContext, Kind, ObjectKey, error};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::map::MapFn;
use super::{All, Builder};
use crate::capability::Reader;

/// A function that makes a source of keys: `fn() -> impl Stream<Item = ObjectKey>`, or one that returns a [`ReconcileAll`].
pub trait MakeSource<Args>: Send + 'static {
    /// The source.
    fn make(self) -> impl Source;
}

// Recommended, so that the message names the argument or stream that is wrong.
impl<F, Args: NoArguments> MakeSource<Args> for F
where
    F: MakeSignature<Args> + Send + 'static,
    F::Output: Source,
{
    fn make(self) -> impl Source {
        self.call_with(Args::none())
    }
}

/// A function that is called once, with at most one argument.
pub trait MakeSignature<Args> {
    /// Its return type.
    type Output;

    /// Calls it.
    fn call_with(self, arguments: Args) -> Self::Output;
}

#[diagnostic::do_not_recommend]
impl<F: FnOnce() -> R, R> MakeSignature<()> for F {
    type Output = R;

    fn call_with(self, (): ()) -> R {
        self()
    }
}

#[diagnostic::do_not_recommend]
impl<F: FnOnce(A) -> R, A, R> MakeSignature<(A,)> for F {
    type Output = R;

    fn call_with(self, (argument,): (A,)) -> R {
        self(argument)
    }
}

/// No arguments.
#[diagnostic::on_unimplemented(
    message = "a function for `sources` takes no arguments, but this one takes `{Self}`",
    label = "takes an argument",
    note = "write `fn name() -> impl Stream<Item = ObjectKey>`"
)]
pub trait NoArguments {
    /// None.
    fn none() -> Self;
}

#[diagnostic::do_not_recommend]
impl NoArguments for () {
    fn none() -> Self {}
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stream of keys",
    label = "not a stream of `ObjectKey`",
    note = "return `impl Stream<Item = ObjectKey> + Send + 'static`"
)]
/// A source of external keys: any stream of [`ObjectKey`]s, or [`ReconcileAll`].
pub trait Source: Send + 'static {
    /// The triggers of its items.
    #[doc(hidden)]
    fn triggers(self) -> BoxStream<'static, Trigger>;
}

#[diagnostic::do_not_recommend]
impl<St: Stream<Item = ObjectKey> + Send + 'static> Source for St {
    fn triggers(self) -> BoxStream<'static, Trigger> {
        self.map(Trigger::Key).boxed()
    }
}

/// A source that enqueues the keys of all objects of the controller with each item of a stream. The items are not read.
///
/// The keys wait behind those of changes, as for a resync. A failing object is retried as after a change of a related
/// object: at once the first time, and later within ten seconds.
///
/// ```
/// use futures_util::stream::{self, Stream};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kooper::KindExt;
/// use kooper::controller::ReconcileAll;
///
/// fn reloads() -> ReconcileAll<impl Stream<Item = ()>> {
///     ReconcileAll(stream::iter([()]))
/// }
///
/// let controller = ConfigMap::controller("shop").source_from(reloads);
/// # let _ = controller.handler(async || {}).build()?;
/// # Ok::<_, kooper::ConfigError>(())
/// ```
#[derive(Debug)]
#[doc(alias = "reconcile_all_on")]
pub struct ReconcileAll<St>(pub St);

#[diagnostic::do_not_recommend]
impl<St: Stream + Send + 'static> Source for ReconcileAll<St> {
    fn triggers(self) -> BoxStream<'static, Trigger> {
        self.0.map(|_| Trigger::All).boxed()
    }
}

impl<K: Kind, O: DeserializeOwned + Send + Sync + 'static, S: Send + Sync + 'static> Builder<K, O, S> {
    /// Watches objects of the kind `T`. A change of one enqueues the key of its
    /// controller owner, if that is of this controller's kind.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Service};
    /// use kooper::KindExt;
    ///
    /// let controller = ConfigMap::controller("shop").owns(Deployment::all()).owns(Service::all());
    /// # let _ = controller.handler(async || {}).build()?;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    ///
    /// If all children have a label, or only their metadata matters, fewer objects
    /// and less of them are fetched and held in memory:
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::KindExt;
    ///
    /// let controller = ConfigMap::controller("shop").owns(Secret::all().labels("app=shop").metadata_only());
    /// # let _ = controller.handler(async || {}).build()?;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    ///
    /// Then [`apply_owned`](crate::capability::Access::apply_owned) rejects a child
    /// that would not be selected.
    pub fn owns<T: Kind>(mut self, children: All<T>) -> Self {
        self.common.plan.watch_children(children);
        self
    }

    /// Watches objects of the kind `T`. A change of one enqueues the keys that
    /// `map` returns for its old and its new version. With `PartialObjectMeta<T>`
    /// only metadata is fetched. If `map` takes a [`Reader`] and the controller handles
    /// only some objects of its kind, `map` is called with a reader of these, too.
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    pub fn watches<T, F, Args>(self, map: F) -> Self
    where
        T: Kind,
        F: MapFn<T, K, Args>,
    {
        self.watches_only(All::new(), map)
    }

    /// Like [`watches`](Self::watches), for some objects of the kind. An object that
    /// leaves the selection is mapped once more, and so is one that enters it.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::{KindExt, ObjectKey};
    ///
    /// fn holder(secret: &Secret) -> Option<ObjectKey> {
    ///     Some(ObjectKey::new(secret.metadata.namespace.as_deref(), secret.metadata.name.as_deref()?))
    /// }
    ///
    /// let opaque = Secret::all().fields("type=Opaque");
    /// let controller = ConfigMap::controller("holders").watches_only(opaque, holder);
    /// # let _ = controller.handler(async || {}).build()?;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn watches_only<T, F, Args>(mut self, objects: All<T>, map: F) -> Self
    where
        T: Kind,
        F: MapFn<T, K, Args>,
    {
        let (kind, described) = (KindInfo::of::<T>(), objects.describe());
        let request = self.common.plan.require_cache("watches", objects, format!("watches = [{described}]"));
        if F::READS {
            self.common.plan.require_reader::<K, ()>(format!("watches = [{described} => …]"));
        }
        let map = Arc::new(map);
        let make = move |controller: &Arc<ControllerContext>| -> MapKeys {
            let (map, reader) = (map.clone(), Reader::<K>::of(controller));
            // The reader's cache may still lack an object whose handler has been called, and nothing is queued when the
            // object arrives there. So the function is called with the cache of the handled objects, too.
            let handled = F::READS.then(|| Reader::<K>::of_handled(controller)).flatten();
            Arc::new(move |object: &Object| {
                let readers = iter::once(&reader).chain(&handled);
                let keys_of = |decoded: T| readers.flat_map(|reader| map.keys(&decoded, reader)).collect::<Vec<_>>();
                // The decoding of a type may panic, too.
                let keys = || object.decode::<T>().map(keys_of);
                catch_unwind(AssertUnwindSafe(keys)).unwrap_or_else(|panic| {
                    let text = error::panic_text(&*panic);
                    tracing::error!(object = %object.key(), "the function of `watches` panicked: {text}; no key is queued for this object");
                    Ok(Vec::new())
                })
            })
        };
        let mapping = Mapping::Function(Box::new(make));
        self.common.relations.push(Relation { cache: request.id, kind, mapping });
        self
    }

    /// Selects the objects that every [`Reader<T>`](Reader) of this controller reads: no
    /// others are fetched. For several selections of one kind each has a type, see
    /// [`Subset`](crate::capability::Subset).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kooper::KindExt;
    /// use kooper::capability::Reader;
    ///
    /// async fn handler(secrets: Reader<Secret>) {
    ///     println!("{} Secrets of the shop", secrets.list().count());
    /// }
    ///
    /// let controller = ConfigMap::controller("shop").reads(Secret::all().labels("app=shop")).handler(handler);
    /// # let _ = controller.build()?;
    /// # Ok::<_, kooper::ConfigError>(())
    /// ```
    pub fn reads<T: Kind>(mut self, objects: All<T>) -> Self {
        self.common.plan.reads(objects);
        self
    }

    /// Enqueues the keys of a stream, or with [`ReconcileAll`] those of all objects. The handler is called with the
    /// reason [`External`](kooper_runtime::Reason::External) if the object exists.
    #[doc(alias = "GenericEvent")]
    pub fn source<St: Source>(self, keys: St) -> Self {
        self.with_triggers(keys.triggers())
    }

    /// Like [`source`](Self::source), but creates the stream when the controller
    /// starts. A stream may need the runtime that exists then.
    pub fn source_from<F: MakeSource<Args>, Args: 'static>(self, make: F) -> Self {
        self.with_triggers(stream::once(async move { make.make().triggers() }).flatten().boxed())
    }

    fn with_triggers(mut self, triggers: BoxStream<'static, Trigger>) -> Self {
        self.common.sources.push(Mutex::new(Some(triggers)));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kooper_runtime::internal::watch::cache_id::CacheId;
    use kooper_runtime::internal::watch::store::{Cache, Store};
    use kube::core::metadata::PartialObjectMeta;

    use super::super::KindExt;
    use super::*;
    use crate::capability::Index;

    /// ConfigMaps by the Secret that they name.
    struct BySecret;

    impl Index for BySecret {
        type Object = ConfigMap;

        fn values(config: &ConfigMap) -> impl IntoIterator<Item = String> {
            config.data.as_ref().and_then(|data| data.get("secret")).cloned()
        }
    }

    fn parse(json: &str) -> Object {
        Object::parse(json.as_bytes()).unwrap()
    }

    fn cache(objects: &[&str]) -> Cache {
        let store = Store::default();
        for object in objects {
            store.put(parse(object));
        }
        Cache::new([(None, Arc::new(store))])
    }

    /// The keys for a Secret, in a controller whose readers have the first cache, and whose handlers have the second one.
    fn keys(builder: &Builder<ConfigMap>, read: Cache, own: Cache, own_id: CacheId) -> Vec<ObjectKey> {
        let (id, kind) = (CacheId::of::<ConfigMap>(), KindInfo::of::<ConfigMap>());
        let caches = [(id, kind.clone(), read)].into_iter().collect();
        let mut controller = ControllerContext::detached(kind, id, caches);
        (controller.own, controller.own_id) = (own, own_id);
        let [Relation { mapping: Mapping::Function(make), .. }] = &*builder.common.relations else {
            panic!("one function")
        };
        let secret = parse(r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"password","namespace":"shop"}}"#);
        make(&Arc::new(controller))(&secret).unwrap()
    }

    #[test]
    fn an_object_that_only_the_cache_of_its_handler_has_is_found() {
        let builder = ConfigMap::controller("shop").watches(BySecret::users_of::<Secret>);
        let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"shop"},
            "data":{"secret":"password"}}"#;
        let (whole, x) = (CacheId::of::<ConfigMap>(), ObjectKey::namespaced("shop", "x"));
        assert_eq!(keys(&builder, cache(&[]), cache(&[config]), whole), std::slice::from_ref(&x));
        assert_eq!(keys(&builder, cache(&[config]), cache(&[]), whole), [x]);
    }

    #[test]
    fn a_function_is_called_once_if_one_cache_is_all_that_it_can_read() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let map = move |_: &Secret, _: &Reader<ConfigMap>| {
            counted.fetch_add(1, Ordering::Relaxed);
            None::<ObjectKey>
        };
        let builder = ConfigMap::controller("shop").watches(map);
        let (whole, metadata) = (CacheId::of::<ConfigMap>(), CacheId::of::<PartialObjectMeta<ConfigMap>>());
        let shared = cache(&[]);
        for (read, own, own_id) in [(shared.clone(), shared, whole), (cache(&[]), cache(&[]), metadata)] {
            keys(&builder, read, own, own_id);
            assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
        }
    }
}
