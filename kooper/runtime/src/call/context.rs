//! The shared state behind the arguments of one controller.

mod caches;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;

use crate::call::annotations::Annotations;
use crate::call::children::ChildObserver;
use crate::call::events::{EventRecorder, Note};
use crate::call::extensions::Extensions;
use crate::metrics::{MetricsRecorder, NoMetrics};
use crate::object::Object;
use crate::object::key::ObjectKey;
use crate::object::kind::KindInfo;
use crate::queue::{CacheRef, QueueOptions, Revision, WorkQueue, WriteOrigin};
use crate::watch::cache_id::CacheId;
use crate::watch::store::Cache;

pub(crate) use caches::Caches;

/// The shared state behind the arguments of a controller's functions: its name, client, caches,
/// queue and Events. All calls of the controller share it.
pub struct ControllerContext {
    /// The program's name with that of its instance, as in the field manager and the mark of the Lease.
    pub(crate) installation: Arc<str>,
    /// The controller's name.
    #[doc(hidden)]
    pub controller: Arc<str>,
    /// The controller's own kind.
    pub kind: KindInfo,
    /// The client. It sends nothing while another replica leads.
    pub(crate) client: Option<Client>,
    /// The caches of the controller's kind, its readers, `owns` and `watches`.
    #[doc(hidden)]
    pub caches: Caches,
    /// The queue, which also knows what calls wrote.
    pub(crate) queue: Arc<WorkQueue>,
    /// The controller's own objects.
    #[doc(hidden)]
    pub own: Cache,
    /// Which objects these are, and whether they are whole.
    #[doc(hidden)]
    pub own_id: CacheId,
    /// The field managers of previous names.
    pub previous: Vec<String>,
    /// The annotations by which users steer its calls.
    #[doc(hidden)]
    pub annotations: Annotations,
    /// Values that arguments keep for the controller.
    #[doc(hidden)]
    pub extensions: Extensions,
    /// Observes the changes of the children.
    pub(crate) child_observer: Arc<dyn ChildObserver>,
    /// Records Kubernetes Events.
    #[doc(hidden)]
    pub events: Arc<dyn EventRecorder>,
    /// Records measurements.
    #[doc(hidden)]
    pub metrics: Arc<dyn MetricsRecorder>,
    /// `true` if Events about lasting conditions are recorded, such as failures.
    #[doc(hidden)]
    pub reports: bool,
}

/// An object that a call has written.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// Its kind.
    pub kind: &'a KindInfo,
    /// Its key.
    pub key: &'a ObjectKey,
    /// Its uid.
    pub uid: &'a str,
    /// Its new version; `None` if it was deleted.
    pub now: Option<&'a Object>,
}

impl ControllerContext {
    /// The program's name with that of its instance.
    #[doc(hidden)]
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// The field manager, `<program>/<controller>` or `<program>.<instance>/<controller>`.
    #[doc(hidden)]
    pub fn field_manager(&self) -> String {
        format!("{}/{}", self.installation, self.controller)
    }

    /// The client. A controller that needs one is not started without it.
    #[doc(hidden)]
    pub fn client(&self) -> Client {
        #[expect(clippy::expect_used, reason = "a controller that takes a client is not started without one")]
        self.client.clone().expect("a controller that takes a client is started with one")
    }

    /// A reference to an object of the controller's kind, for Events.
    #[doc(hidden)]
    pub fn reference(&self, object: &Object) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.kind.api_version()),
            kind: Some(self.kind.kind.clone()),
            name: Some(object.key().name().to_owned()),
            namespace: object.key().namespace().map(str::to_owned),
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.version().to_owned()),
            ..ObjectReference::default()
        }
    }

    /// The context of a function that is called without a running controller.
    /// It has caches and no client.
    #[doc(hidden)]
    #[must_use]
    pub fn detached(kind: KindInfo, primary: CacheId, caches: Caches) -> Self {
        Self {
            installation: "detached".into(),
            controller: "detached".into(),
            kind,
            client: None,
            own: caches.get(primary).cloned().unwrap_or_default(),
            own_id: primary,
            caches,
            previous: Vec::new(),
            annotations: Annotations::default(),
            extensions: Extensions::default(),
            child_observer: Arc::new(()),
            queue: Arc::new(WorkQueue::new(QueueOptions::default())),
            events: Arc::new(()),
            metrics: Arc::new(NoMetrics),
            reports: true,
        }
    }

    /// The same context, of a controller of a program, which is connected to a cluster.
    #[doc(hidden)]
    #[must_use]
    pub fn connected(
        self,
        program: &str,
        controller: &str,
        client: Client,
        events: Arc<dyn EventRecorder>,
        extensions: Extensions,
    ) -> Self {
        let (installation, controller) = (program.into(), controller.into());
        Self { installation, controller, client: Some(client), events, extensions, ..self }
    }

    /// Notes what a call of the key wrote. The key waits until its caches show the
    /// write; `origin` classifies the write's watch event.
    #[doc(hidden)]
    pub fn wrote(&self, key: &ObjectKey, written: &Written<'_>, origin: WriteOrigin) {
        let Written { kind, key: object, uid, now } = *written;
        let caches = self.caches.of_kind(kind).filter(|(_, cache)| cache.covers(object.namespace()));
        let others = caches.map(|(id, cache)| {
            // A cache that does not select the object never has this version: at most it still has an old one.
            let shown = now.filter(|now| id.selected.is_none_or(|selected| selected.selects(now)));
            (CacheRef::Other(id), cache, shown)
        });
        let primary = (kind.is_same(&self.kind) && object == key).then_some((CacheRef::Primary, &self.own, now));
        for (cache_ref, cache, now) in others.chain(primary) {
            let write = |version| Revision { object: (cache_ref, object.clone()), uid: uid.to_owned(), version };
            let version = now.map(|now| now.version().to_owned());
            self.queue.record_write(key, &write(version.clone()), origin);
            // The event may have arrived before the response. There is none for an
            // object that is not selected.
            match cache.get(object) {
                Some(now) => self.queue.cache_reached(|| Revision::event(cache_ref, &now, false)),
                None if cache_ref == CacheRef::Primary || version.is_none() => self.queue.cache_reached(|| write(None)),
                None => {}
            }
        }
    }

    /// Returns `true` if the running call of the key is repeated at once if it fails with a conflict. Otherwise, this is a
    /// failure like any other.
    #[doc(hidden)]
    pub fn repeats_conflict(&self, key: &ObjectKey) -> bool {
        self.queue.repeats(key)
    }

    /// Repeats the running call of the key some seconds later if it succeeds, and the object that it has received lacks a
    /// write of an earlier call, whose event is late.
    #[doc(hidden)]
    pub fn repeat_if_behind(&self, key: &ObjectKey) {
        self.queue.repeat_if_behind(key);
    }

    /// Records an Event about something that lasts.
    #[doc(hidden)]
    pub fn report(&self, note: Note) {
        if self.reports {
            self.events.report(note);
        }
    }

    /// The cache that the plan requested, or an empty one if it did not.
    #[doc(hidden)]
    pub fn cache(&self, id: CacheId) -> Cache {
        self.caches.get(id).cloned().unwrap_or_default()
    }
}

kooper_base::debug_fields! { ControllerContext { controller } }

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kooper_grammar::selector::Selector;

    use super::*;
    use crate::queue::reason::Reason;
    use crate::queue::{Completion, Lane};
    use crate::watch::selected::Selected;
    use crate::watch::store::Store;

    fn controller(reads: bool) -> (ControllerContext, Arc<Store>) {
        let (id, store) = (CacheId::of::<ConfigMap>(), Arc::new(Store::default()));
        let kind = KindInfo::of::<ConfigMap>();
        let caches = reads.then(|| (id, kind.clone(), Cache::new([(None, store.clone())]))).into_iter().collect();
        (ControllerContext::detached(kind, id, caches), store)
    }

    fn object(version: &str) -> Object {
        let json = format!(r#"{{"metadata":{{"name":"b","uid":"u","resourceVersion":"{version}"}}}}"#);
        Object::parse(json.as_bytes()).unwrap()
    }

    /// Lets a call of `a` write `b`; whether `a` can be called again.
    async fn writes(controller: &ControllerContext) -> bool {
        let (a, b) = (ObjectKey::cluster_scoped("a"), ObjectKey::cluster_scoped("b"));
        controller.queue.add(&a, Lane::Event, Reason::Added);
        let item = controller.queue.get().await.unwrap();
        let now = object("5");
        controller.wrote(&a, &Written { kind: &controller.kind, key: &b, uid: "u", now: Some(&now) }, WriteOrigin::Own);
        controller.queue.finish(item.ticket, Completion::Success(None));
        controller.queue.add(&a, Lane::Event, Reason::Added);
        tokio::time::timeout(std::time::Duration::ZERO, controller.queue.get()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_its_own_write_in_the_cache_that_the_handler_reads() {
        let (controller, _store) = controller(true);
        assert!(!writes(&controller).await);
        let id = CacheId::of::<ConfigMap>();
        controller.queue.cache_reached(|| Revision::event(CacheRef::Primary, &object("5"), false));
        assert!(controller.queue.is_empty(), "the cache of the selected objects is another one");
        controller.queue.cache_reached(|| Revision::event(CacheRef::Other(id), &object("5"), false));
        assert_eq!(controller.queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_a_write_that_is_cached_already_or_that_no_handler_reads() {
        let (reading, store) = controller(true);
        store.put(object("6"));
        assert!(writes(&reading).await);
        assert!(writes(&controller(false).0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_a_cache_that_does_not_select_what_it_wrote() {
        let select = |labels| {
            let labels = Selector::parse(labels).unwrap();
            let id = CacheId::of::<ConfigMap>().selecting(Selected { labels, ..Selected::default() }.interned());
            let store = Arc::new(Store::default());
            let kind = KindInfo::of::<ConfigMap>();
            let caches = [(id, kind.clone(), Cache::new([(None, store.clone())]))].into_iter().collect();
            (ControllerContext::detached(kind, CacheId::of::<ConfigMap>(), caches), store, id)
        };
        assert!(writes(&select("app=shop").0).await);
        assert!(!writes(&select("!app").0).await);
        // It has left the selection, which the cache does not show yet.
        let (leaving, store, id) = select("app=shop");
        store.put(object("4"));
        assert!(!writes(&leaving).await);
        leaving.queue.cache_reached(|| Revision::event(CacheRef::Other(id), &object("5"), true));
        assert_eq!(leaving.queue.len(), 1);
    }
}
