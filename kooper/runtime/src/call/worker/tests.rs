use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;

use super::grants::tests::First;
use super::*;
use crate::call::action::Action;
use crate::call::context::Caches;
use crate::call::handler::{DeletedFunction, DynHandler};
use crate::call::observer::CallObserver;
use crate::leader::shard::Shard;
use crate::object::kind::KindInfo;
use crate::object::{DecodeError, Object};
use crate::queue::{Admission, AdmitAll, Grant};
use crate::watch::cache_id::CacheId;

/// A handler that does nothing.
struct Idle;

impl DynHandler for Idle {
    fn call(&self, _: Arc<Object>, _: Call) -> BoxFuture<'static, Result<Action, Failure>> {
        Box::pin(async { Ok(Action::done()) })
    }

    fn fits(&self, _: &Object) -> Result<(), DecodeError> {
        Ok(())
    }
}

fn workers() -> Arc<Workers> {
    let (kind, id) = (KindInfo::of::<ConfigMap>(), CacheId::of::<ConfigMap>());
    Arc::new(Workers {
        controller: Arc::new(ControllerContext::detached(kind, id, Caches::default())),
        functions: Functions {
            handler: Arc::new(Idle),
            wants: Arc::new(|_| true),
            paused: None,
            while_deleting: false,
            forgotten_finalizers: None,
            deleted: None,
            finalizers: None,
            unselected: None,
        },
        limits: CallLimits { workers: 1, timeout: None, stuck_after: Duration::ZERO },
        daemons: None,
        call_tracker: Arc::new(CallTracker::new("shop".into(), 1)),
        observer: Arc::new(Observers(vec![Arc::new(Panics)])),
        executor: Executor::default(),
        leadership: Leadership::always(),
        tasks: Tasks::default(),
        grants: Arc::new(Grants::new(Arc::new(AdmitAll))),
    })
}

/// An observer that cannot make the text of the user's error.
struct Panics;

impl CallObserver for Panics {
    fn deleted(&self, _: &Attempt, _: Option<&Failure>, _: Duration) {
        panic!("as the test requests")
    }
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_stuck_call_for_a_deleted_object_is_handled_again_although_its_error_has_no_text() {
    let (workers, key) = (workers(), ObjectKey::cluster_scoped("a"));
    let queue = &workers.controller.queue;
    queue.add(&key, Lane::Event, Reason::Added);
    let item = queue.get().await.unwrap();
    let attempt = workers.attempt(&item, Part::Deleted, "u".into(), None);
    let task = workers.executor.spawn(caught(async { CallResult::Err(Failure::Handler("shut".into())) }));
    let running = workers.call_tracker.start(attempt.started, &key, attempt.number, task.poll_time());
    // Its shard is another replica's by now.
    workers.detach_stuck(attempt, task, Failure::Ended, running).await;
    let again = timeout(Duration::from_secs(60), queue.get()).await.expect("its key is given back");
    assert_eq!(again.map(|item| item.key), Some(key));
}

/// Places one object in a shard, and grants the others at once.
struct Placed;

impl Placed {
    const UID: &str = "in the shard";
}

impl Admission for Placed {
    fn grants_deleted(&self, object: &Object) -> Grant {
        if object.uid() == Self::UID { Grant::Shard(Work::begin(Arc::new(First))) } else { Grant::Free }
    }

    fn shards(&self) -> Option<watch::Receiver<BTreeSet<Shard>>> {
        Some(watch::Sender::default().subscribe())
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_is_called_for_an_object_whose_shard_is_gained_during_a_call_for_another_one_of_its_name() {
    let (key, grants) = (ObjectKey::cluster_scoped("a"), Arc::new(Grants::new(Arc::new(Placed))));
    let tombstones = Arc::<Tombstones>::default();
    for uid in [Placed::UID, "free"] {
        let object = Object::parse(format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}}}}"#).as_bytes()).unwrap();
        assert!(tombstones.add(&key, Tombstone { object: Arc::new(object), gone: Gone::Unknown, awaited: None }));
    }
    let gained = grants.clone();
    let function: DeletedFunction = Arc::new(move |_, _, _| {
        // A third object of the name exists and is refused, so the controller does not queue the key now.
        gained.handle([First.shard()].into());
        Box::pin(async { Ok(Action::done()) })
    });
    let idle = Arc::into_inner(workers()).unwrap();
    let deleted = Deletions { tombstones: tombstones.clone(), function, lookup: None };
    let functions = Functions { deleted: Some(deleted), ..idle.functions };
    let workers = Arc::new(Workers { functions, observer: Arc::new(Observers(Vec::new())), grants, ..idle });
    let queue = &workers.controller.queue;
    queue.add(&key, Lane::Event, Reason::Deleted);
    let item = queue.get().await.unwrap();
    assert_eq!(workers.call_deleted(&item).await, Some(true));
    queue.finish(item.ticket, Completion::Skipped);
    let again = timeout(Duration::from_secs(60), queue.get()).await.expect("it is queued again");
    assert_eq!(again.map(|item| item.key).as_ref(), Some(&key));
    assert!(tombstones.contains(&key), "and `deleted` is called for the object then");
}
