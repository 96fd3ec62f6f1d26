use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::metadata::PartialObjectMeta;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::call::context::Caches;
use crate::call::observer::CallObserver;
use crate::leader::shard::Shard;
use crate::queue::reason::Reasons;
use crate::queue::{Admission, AdmitAll, Completion, Grant, WriteOrigin};
use crate::watch::store::Store;

fn object(edit: impl Fn(&mut Value)) -> Option<Arc<Object>> {
    let mut value = json!({
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "generation": 1, "labels": {}},
        "spec": {"replicas": 1}, "status": {"ready": 0},
    });
    edit(&mut value);
    Some(Arc::new(Object::parse(value.to_string().as_bytes()).unwrap()))
}

fn same(_: &mut Value) {}

fn finalizers() -> Finalizers {
    Finalizers { own: "example.com/a".to_owned(), previous: Vec::new(), on_leave: true, retirement: None }
}

/// An object with the finalizer, in a version.
fn held(version: &'static str) -> Option<Arc<Object>> {
    object(move |v| {
        v["metadata"]["resourceVersion"] = version.into();
        v["metadata"]["finalizers"] = json!(["example.com/a"]);
    })
}

fn enqueuer() -> Enqueuer {
    let id = CacheId::of::<ConfigMap>();
    Enqueuer {
        controller: Arc::new(ControllerContext::detached(KindInfo::of::<ConfigMap>(), id, Caches::default())),
        namespaces: Arc::new(Namespaces::new("enqueuer", false, std::iter::empty())),
        open: AtomicBool::new(true),
        grants: Arc::new(Grants::new(Arc::new(AdmitAll))),
        observer: Arc::new(Observers(Vec::new())),
    }
}

#[test]
fn new_desired_state_and_deletion_are_urgent_and_other_changes_are_not() {
    let change = |edit: fn(&mut Value)| urgency(&Change::new(object(same), object(edit)));
    assert_eq!(change(|v| v["status"]["ready"] = 1.into()), Urgency::Soon);
    assert_eq!(change(|v| v["metadata"]["labels"] = json!({"a": "b"})), Urgency::Soon);
    assert_eq!(change(|v| v["metadata"]["generation"] = 2.into()), Urgency::Now);
    assert_eq!(change(|v| v["metadata"]["uid"] = "w".into()), Urgency::Now);
    assert_eq!(change(|v| v["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()), Urgency::Always);
    assert_eq!(urgency(&Change::new(object(same), None)), Urgency::Always);
    assert_eq!(urgency(&Change::new(None, object(same))), Urgency::Now);
    // The object was marked already: a later change is not a new mark.
    let marked = |generation: u64| {
        object(move |v| {
            v["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            v["metadata"]["generation"] = generation.into();
        })
    };
    assert_eq!(urgency(&Change::new(marked(1), marked(2))), Urgency::Now);
}

/// The call of an object fails after the watch has shown a write of it.
async fn fail_after_own_write(enqueuer: &Enqueuer, cache: CacheRef, own: &Object) {
    let (queue, key) = (enqueuer.queue(), ObjectKey::cluster_scoped("a"));
    queue.add(&key, Lane::Event, Reason::Added);
    let item = queue.get().await.unwrap();
    queue.record_write(&key, &Revision::event(cache, own, false), WriteOrigin::Own);
    queue.cache_reached(|| Revision::event(cache, own, false));
    queue.finish(item.ticket, Completion::FailureAfter(Duration::from_secs(3600)));
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_an_echo_in_the_watch_and_a_change_in_a_list() {
    let enqueuer = enqueuer();
    let key = ObjectKey::cluster_scoped("a");
    let change = Change::new(object(same), object(|v| v["metadata"]["resourceVersion"] = "6".into()));
    fail_after_own_write(&enqueuer, CacheRef::Primary, change.new.as_ref().unwrap()).await;
    let add = |seen| {
        let cache = CacheRef::Primary;
        enqueuer.add((&key, None), (Lane::Event, false), Reason::Modified, cache, (&change, seen), urgency);
        enqueuer.queue().len()
    };
    assert_eq!(add(ChangeSource::Watched), 0);
    assert_eq!(add(ChangeSource::Listed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_to_an_object_outside_of_the_selector_is_an_echo() {
    let id = CacheId::of::<PartialObjectMeta<ConfigMap>>();
    let enqueuer = Arc::new(enqueuer());
    let unselected =
        UnselectedHandler { enqueuer: enqueuer.clone(), id, ours: Cache::default(), finalizers: finalizers() };
    let own = held("6");
    fail_after_own_write(&enqueuer, CacheRef::Other(id), own.as_ref().unwrap()).await;
    unselected.changed(&Change::new(held("5"), own.clone()), ChangeSource::Watched);
    assert_eq!(enqueuer.queue().len(), 0);
    unselected.changed(&Change::new(own, held("7")), ChangeSource::Watched);
    assert_eq!(enqueuer.queue().len(), 1, "a change by another client");
}

#[tokio::test(start_paused = true)]
async fn the_first_list_of_what_waits_for_its_cleanup_outside_of_the_selector_is_behind_changes() {
    let id = CacheId::of::<PartialObjectMeta<ConfigMap>>();
    let enqueuer = Arc::new(enqueuer());
    let unselected =
        UnselectedHandler { enqueuer: enqueuer.clone(), id, ours: Cache::default(), finalizers: finalizers() };
    unselected.changed(&Change::new(None, held("5")), ChangeSource::First);
    assert_eq!(enqueuer.queue().counts().lanes, [0, 0, 1]);
    let item = enqueuer.queue().get().await.unwrap();
    assert_eq!(item.reasons, Reasons::from(Reason::Initial));
    enqueuer.queue().done(&item);
    unselected.changed(&Change::new(held("5"), held("6")), ChangeSource::Watched);
    assert_eq!(enqueuer.queue().counts().lanes, [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_wakes_what_waits_for_its_cleanup_outside_of_the_selector() {
    let enqueuer = Arc::new(enqueuer());
    let store = Arc::new(Store::default());
    store.put(Object::parse(&held("5").unwrap().json()).unwrap());
    let handled =
        HandledObjects { primary: Cache::default(), unselected: Some((Cache::new([(None, store)]), finalizers())) };
    let served = OptionalKindHandler { enqueuer: enqueuer.clone(), handled };
    served.signal(Signal::Served);
    let item = enqueuer.queue().get().await.unwrap();
    assert_eq!(item.key, ObjectKey::cluster_scoped("a"));
    assert_eq!(item.reasons, Reasons::from(Reason::KindServed));
}

/// A replica whose shards are not handled yet.
struct Waiting;

impl Admission for Waiting {
    fn grants(&self, _: &Object) -> Grant {
        Grant::Later
    }

    fn shards(&self) -> Option<watch::Receiver<BTreeSet<Shard>>> {
        Some(watch::Sender::default().subscribe())
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_failing_key_is_not_forgotten_while_its_shard_is_not_handled() {
    let enqueuer = Enqueuer { grants: Arc::new(Grants::new(Arc::new(Waiting))), ..enqueuer() };
    let key = ObjectKey::cluster_scoped("a");
    let change = Change::new(object(same), object(|v| v["metadata"]["generation"] = 2.into()));
    let add = || {
        let own = (&key, change.new.as_deref());
        enqueuer.add(
            own,
            (Lane::Event, false),
            Reason::Modified,
            CacheRef::Primary,
            (&change, ChangeSource::Watched),
            urgency,
        );
        enqueuer.queue().len()
    };
    assert_eq!(add(), 0, "it waits");
    enqueuer.queue().add(&key, Lane::Event, Reason::Added);
    let item = enqueuer.queue().get().await.unwrap();
    enqueuer.queue().finish(item.ticket, Completion::FailureAfter(Duration::from_secs(3600)));
    assert_eq!(add(), 1, "its back-off ends");
}

fn handler(enqueuer: Enqueuer) -> EventHandler {
    EventHandler {
        enqueuer: Arc::new(enqueuer),
        wants: Arc::new(|_| true),
        has_filter: false,
        paused: Some(Arc::new(|object| object.metadata().is_ok_and(|metadata| metadata.labels.contains_key("paused")))),
        while_deleting: false,
        changed: vec![Changed::Any],
        metadata_only: false,
        daemons: None,
        tombstones: None,
        undecodable: Arc::new(Undecodable::new("enqueuer".into())),
        namespaces: None,
        unselected: None,
    }
}

/// The versions of an object that is being deleted; `None` for its removal.
#[derive(Default)]
struct Deletion(Mutex<Vec<Option<String>>>);

impl CallObserver for Deletion {
    fn deletion(&self, change: &Change) {
        self.0.lock().push(change.new.as_ref().map(|new| new.version().to_owned()));
    }
}

#[test]
fn each_state_of_an_object_that_is_being_deleted_is_observed_also_while_another_replica_leads() {
    let observed = Arc::new(Deletion::default());
    let observer = Arc::new(Observers(vec![observed.clone()]));
    let handler = handler(Enqueuer { open: AtomicBool::new(false), observer, ..enqueuer() });
    let deleted = |version: &'static str| {
        object(move |v| {
            v["metadata"]["resourceVersion"] = version.into();
            v["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        })
    };
    for (old, new) in [
        (None, object(same)),
        (object(same), deleted("6")),
        (deleted("6"), deleted("7")),
        (deleted("7"), None),
        (None, object(same)),
    ] {
        handler.changed(&Change::new(old, new), ChangeSource::Watched);
    }
    assert_eq!(*observed.0.lock(), [Some("6".to_owned()), Some("7".to_owned()), None]);
    assert_eq!(handler.enqueuer.queue().len(), 0);
}

#[test]
fn an_object_begins_to_be_paused_once_and_a_new_one_of_its_name_again() {
    let handler = handler(enqueuer());
    let paused = |uid: &'static str| {
        object(move |v| {
            v["metadata"]["labels"]["paused"] = "true".into();
            v["metadata"]["uid"] = uid.into();
        })
    };
    for (old, new, expected) in [
        (None, paused("u"), true),
        (object(same), paused("u"), true),
        (paused("u"), paused("u"), false),
        (paused("u"), paused("w"), true),
        (paused("u"), object(same), false),
        (paused("u"), None, false),
    ] {
        assert_eq!(handler.begins_to_be_paused(&Change::new(old.clone(), new.clone())), expected, "{old:?} {new:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_begins_to_match_the_filter_is_queued_whatever_part_of_it_changed() {
    let handler = EventHandler {
        wants: Arc::new(|object| object.metadata().is_ok_and(|metadata| metadata.labels.contains_key("ours"))),
        has_filter: true,
        changed: vec![Changed::Generation],
        ..handler(enqueuer())
    };
    let ours = |ready: u64| {
        object(move |v| {
            v["metadata"]["labels"]["ours"] = "true".into();
            v["status"]["ready"] = ready.into();
        })
    };
    let queued = |old, new| {
        handler.changed(&Change::new(old, new), ChangeSource::Watched);
        handler.enqueuer.queue().len()
    };
    assert_eq!(queued(ours(0), ours(1)), 0, "it matched before");
    assert_eq!(queued(ours(1), object(same)), 0, "it does not match any more");
    assert_eq!(queued(object(same), ours(1)), 1);
}

#[test]
fn a_change_of_content_that_is_not_fetched_counts_unless_a_generation_shows_it() {
    let handler =
        |metadata_only: bool| EventHandler { changed: vec![Changed::Generation], metadata_only, ..handler(enqueuer()) };
    let metadata = |version: &'static str, generation: Option<u64>| {
        let only = object(move |v| {
            *v = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version}});
            if let Some(generation) = generation {
                v["metadata"]["generation"] = generation.into();
            }
        });
        only.unwrap()
    };
    for (metadata_only, generation, expected) in [(true, None, true), (true, Some(1), false), (false, None, false)] {
        let counts = handler(metadata_only).counts(&metadata("5", generation), &metadata("6", generation));
        assert_eq!(counts, expected, "{metadata_only} {generation:?}");
    }
}
