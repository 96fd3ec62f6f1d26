use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::call::action::Action;
use crate::call::context::Caches;
use crate::call::handler::DynHandler;
use crate::call::observer::CallObserver;
use crate::object::kind::KindInfo;
use crate::object::{DecodeError, Object};
use crate::queue::reason::Reason;
use crate::queue::{AdmitAll, Lane};
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
            unremoved: None,
            deleted: None,
            finalizers: None,
            unselected: None,
        },
        limits: Limits { workers: 1, timeout: None, stuck_after: Duration::ZERO },
        daemons: None,
        busy: Arc::new(Busy::new("shop".into(), 1)),
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
    let task = workers.executor.spawn(caught(async { Ended::Err(Failure::Handler("shut".into())) }));
    let running = workers.busy.start(attempt.started, &key, attempt.number, task.poll_time());
    // Its shard is another replica's by now.
    workers.detach_stuck(attempt, task, Failure::Ended, running).await;
    let again = timeout(Duration::from_secs(60), queue.get()).await.expect("its key is given back");
    assert_eq!(again.map(|item| item.key), Some(key));
}
