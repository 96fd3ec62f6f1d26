//! Daemons beside declared children: an object whose daemon fails is not ready.
//!
//! The controller of the daemon may run in another replica than that of the children, and both would replace each
//! other's conditions. So the failure is noted in an annotation, which triggers the handler as any change does.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kooper_access::Patcher;
use kooper_access::capability::PatchBody;
use kooper_access::extract::{Argument, Context, DaemonArguments};
use kooper_access::handler::Handler;
use kooper_access::plan::Plan;
use kooper_runtime::internal::error::panicking::{Panic, caught};
use kooper_runtime::internal::error::refusal::is_missing;
use kooper_runtime::internal::error::{chain, is_conflict, public_chain};
use kooper_runtime::{Action, BoxError, Kind, ObjectKey};
use kube::ResourceExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::declared::{Declared, WithChildren};
use crate::labels::DAEMON_FAILED;
use crate::record::owner;

/// A daemon that runs for so long has recovered.
const STEADY: Duration = Duration::from_secs(60);

/// A daemon that begins so soon after the one before goes on.
const AT_ONCE: Duration = Duration::from_secs(10);

/// The delays before the attempts to note how a daemon has ended, in seconds. It is not restarted meanwhile.
const ATTEMPTS: [u64; 4] = [0, 1, 2, 4];

/// The longest reason in characters. All annotations of an object share 256 KiB.
const LONGEST: usize = 1024;

/// A daemon that notes its failures. [`Declared::daemon`] makes it.
pub struct NotingDaemon<H>(pub(crate) Arc<H>);

impl<P, S, L> Declared<P, S, L> {
    /// A daemon, for [`Builder::daemon`](kooper_access::controller::Builder::daemon), whose failures count for the
    /// owner's `Ready`: after an error or a panic the condition is `False`, until the daemon has run for a minute or has
    /// finished.
    ///
    /// The reason is noted in the annotation `kooper.rs/daemon-failed`, for which the daemon needs the permission to patch
    /// the object.
    #[must_use = "pass it to `Builder::daemon`"]
    pub fn daemon<H>(&self, daemon: H) -> NotingDaemon<H> {
        self.executor().has_daemon.store(true, Ordering::Relaxed);
        NotingDaemon(Arc::new(daemon))
    }
}

impl<A: DaemonArguments> DaemonArguments for WithChildren<A> {}

#[diagnostic::do_not_recommend]
impl<P, S, H, A> Handler<P, S, WithChildren<A>> for NotingDaemon<H>
where
    P: Kind,
    S: Send + Sync + 'static,
    H: Handler<P, S, A>,
{
    fn plan(plan: &mut Plan) {
        H::plan(plan);
        <Patcher<P> as Argument<P, S, (P, ())>>::plan(plan);
    }

    fn handle(&self, context: Context<P, S>) -> BoxFuture<'static, Result<Action, BoxError>> {
        let daemon = self.0.clone();
        Box::pin(async move {
            let failure = owner(&context).annotations().get(DAEMON_FAILED).cloned();
            let runs = DaemonRun::begin(&context);
            let mut noted = FailureNote { failure, is_certain: true };
            let ended: Ended = {
                let mut running = pin!(caught(daemon.handle(context.clone())));
                let recovers = async {
                    sleep_until(runs.since + STEADY).await;
                    loop {
                        // The object that the daemon began with may be older than the note about the one before it.
                        if let Some(object) = context.controller().own.get(context.key()) {
                            let failure =
                                object.metadata().ok().and_then(|it| it.annotations.get(DAEMON_FAILED).cloned());
                            noted = FailureNote { is_certain: noted.is_certain || failure.is_some(), failure };
                        }
                        if note(&context, &mut noted, None).await {
                            break;
                        }
                        sleep(STEADY).await;
                    }
                };
                let mut recovers = pin!(recovers.fuse());
                loop {
                    // The daemon goes on while its recovery is noted.
                    tokio::select! {
                        biased;
                        ended = &mut running => break ended,
                        () = &mut recovers => {}
                    }
                }
            };
            runs.end();
            // After a conflict the daemon is called again at once, unless it meets one again and again. It says nothing.
            let is_conflict = matches!(&ended, Ok(Err(error)) if is_conflict(&**error));
            if !is_conflict || !context.controller().repeats_conflict(context.key()) {
                let failure = match &ended {
                    Ok(Ok(_)) => None,
                    Ok(Err(error)) => Some(public_chain(&**error).chars().take(LONGEST).collect()),
                    Err(panic) => Some(panic.to_string()),
                };
                // Nothing else would note it: one that has finished is not called again.
                for pause in ATTEMPTS {
                    sleep(Duration::from_secs(pause)).await;
                    if note(&context, &mut noted, failure.clone()).await {
                        break;
                    }
                }
            }
            ended.unwrap_or_else(|panic| panic.resume())
        })
    }
}

/// The daemons that were dropped. A change of the object begins another one, and the time goes on.
#[derive(Default)]
struct DroppedDaemons(Mutex<DroppedDaemonRuns>);

#[derive(Default)]
struct DroppedDaemonRuns {
    /// The uid of the object, the begin, and the end.
    runs: HashMap<ObjectKey, (String, Instant, Instant)>,
    /// When those that do not go on any more are next forgotten.
    sweep_at: Option<Instant>,
}

impl DroppedDaemons {
    /// Takes the begin of a daemon that goes on.
    fn resume(&self, key: &ObjectKey, uid: &str, now: Instant) -> Option<Instant> {
        let mut dropped = self.0.lock();
        let DroppedDaemonRuns { runs, sweep_at } = &mut *dropped;
        // The next one begins at once. Later ones follow a pause, or another owner of the shard.
        let goes_on = |at: Instant| now - at < AT_ONCE;
        // Not for each one: those of all objects may be dropped together.
        if sweep_at.is_none_or(|at| at <= now) {
            runs.retain(|_, (_, _, at)| goes_on(*at));
            *sweep_at = Some(now + AT_ONCE);
        }
        let (known, since, at) = runs.remove(key)?;
        (known == uid && goes_on(at)).then_some(since)
    }
}

/// A daemon that runs.
struct DaemonRun {
    dropped: Arc<DroppedDaemons>,
    key: ObjectKey,
    uid: String,
    /// The begin of the first one since the last failure.
    since: Instant,
    has_ended: bool,
}

impl DaemonRun {
    fn begin<P: Kind, S>(context: &Context<P, S>) -> Self {
        let (dropped, now): (Arc<DroppedDaemons>, _) = (context.controller().extensions.get(), Instant::now());
        let (key, uid) = (context.key().clone(), owner(context).uid().unwrap_or_default());
        let since = dropped.resume(&key, &uid, now).unwrap_or(now);
        Self { dropped, key, uid, since, has_ended: false }
    }

    fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for DaemonRun {
    fn drop(&mut self) {
        if !self.has_ended {
            let run = (std::mem::take(&mut self.uid), self.since, Instant::now());
            self.dropped.0.lock().runs.insert(self.key.clone(), run);
        }
    }
}

/// The result of a daemon, or its panic.
type Ended = Result<Result<Action, BoxError>, Panic>;

/// The note about a daemon on its object.
struct FailureNote {
    failure: Option<String>,
    /// `false` if a request was sent that may have replaced it.
    is_certain: bool,
}

impl FailureNote {
    fn is(&self, failure: Option<&str>) -> bool {
        self.is_certain && self.failure.as_deref() == failure
    }
}

/// Notes a failure, or that there is none. Returns `false` if that must be tried again. If the request fails, or is
/// cancelled, the next one is not left out.
async fn note<P: Kind, S: Send + Sync + 'static>(
    context: &Context<P, S>,
    noted: &mut FailureNote,
    failure: Option<String>,
) -> bool {
    if noted.is(failure.as_deref()) {
        return true;
    }
    noted.is_certain = false;
    let patcher = <Patcher<P> as Argument<P, S, (P, ())>>::extract(context);
    let patch = PatchBody::merge(json!({"metadata": {"annotations": {(DAEMON_FAILED): failure}}}));
    match patcher.patch_object(&*owner(context), patch).await {
        Ok(_) => {
            *noted = FailureNote { failure, is_certain: true };
            true
        }
        Err(error) => {
            tracing::debug!("the state of the daemon is not noted: {}", chain(&error));
            // An object that is gone needs no note. A proxy's 404 does not name it.
            error.status().is_some_and(is_missing)
        }
    }
}

kooper_runtime::internal::debug_fields! { NotingDaemon<H> {} }

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_daemon_goes_on_if_the_next_one_begins_at_once_and_is_forgotten_otherwise() {
        let (dropped, since) = (DroppedDaemons::default(), Instant::now());
        let [a, b] = ["a", "b"].map(ObjectKey::cluster_scoped);
        let stop = |key: &ObjectKey| {
            dropped.0.lock().runs.insert(key.clone(), ("1".to_owned(), since, Instant::now()));
        };
        let resume = |key: &ObjectKey, uid: &str| dropped.resume(key, uid, Instant::now());
        let known = || dropped.0.lock().runs.len();
        stop(&a);
        assert_eq!([resume(&a, "1"), resume(&a, "1")], [Some(since), None], "it goes on once");
        stop(&a);
        assert_eq!(resume(&a, "2"), None, "it is another object of this name");
        tokio::time::advance(AT_ONCE / 2).await;
        stop(&a);
        stop(&b);
        tokio::time::advance(AT_ONCE / 2).await;
        assert_eq!((resume(&a, "2"), known()), (None, 1));
        tokio::time::advance(AT_ONCE * 2 / 3).await;
        assert_eq!((resume(&a, "1"), known()), (None, 1), "they are not all looked at for each one");
        assert_eq!((resume(&b, "1"), known()), (None, 0), "it was dropped too long ago");
        stop(&b);
        tokio::time::advance(AT_ONCE).await;
        assert_eq!((resume(&a, "1"), known()), (None, 0));
    }
}
