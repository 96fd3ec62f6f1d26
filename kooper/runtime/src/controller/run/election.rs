//! Waiting for leadership, working as the leader, and stepping down.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{EVENTS_GRACE, Runner};
use crate::call::events::{EventRecorder, Note};
use crate::controller::config::Leases;
use crate::controller::error::ControllerError;
use crate::leader::{Announce, Announcement, Elector, ElectorOptions};
use crate::object::key::ObjectKey;
use crate::queue::reason::Reason;
use crate::queue::{Lane, Urgency};

/// Maximum time for writing the Event about the released Lease. A process that stops has used
/// its time for its handlers and for the release.
const LAST_EVENT_GRACE: Duration = Duration::from_secs(1);

impl Runner {
    /// Waits for leadership, works while it leads, and waits again.
    pub(super) async fn run_elected(&self, shutdown: &CancellationToken) -> Result<(), ControllerError> {
        let events = self.lease_events();
        let Some(mut elector) = self.elector(events.clone()) else { return Ok(()) };
        self.process.health.add(elector.status());
        self.starting.over();
        // There is one elector in a run.
        drop(self.view.election.set(elector.status()));
        loop {
            if shutdown.run_until_cancelled(elector.campaign()).await.is_none() {
                // It may have acquired the lease just now.
                elector.release().await;
                events.drain(LAST_EVENT_GRACE).await;
                return Ok(());
            }
            self.tombstones.clear();
            self.enqueuer.open.store(true, Ordering::SeqCst);
            let stop = shutdown.child_token();
            let lost = CancellationToken::new();
            let holding = BackgroundElector::start(elector, &stop, &lost);
            let handled = self.watching.handled(&self.controller.config);
            self.observer.each(|one| one.term_begins(&|key| handled.get(key).is_some()));
            let wake = |key: &ObjectKey| self.enqueuer.wake(key, Lane::Background, Reason::Leader, Urgency::Idle);
            let filling = handled.each(|_| true, wake);
            let _ = stop.run_until_cancelled(filling).await;
            let ended = self.run_term(&stop, &lost).await;
            elector = holding.end().await;
            self.enqueuer.close();
            self.tombstones.clear();
            self.observer.each(|one| one.term_ended());
            if !ended {
                // A call that still runs might write, so the lease is not released but expires.
                elector.abandon();
                events.drain(self.before_the_next_term(EVENTS_GRACE)).await;
                return if shutdown.is_cancelled() { Ok(()) } else { Err(ControllerError::AbortIgnored) };
            }
            elector.release().await;
            if shutdown.is_cancelled() || !self.process.rejoins_election {
                events.drain(LAST_EVENT_GRACE).await;
                return if shutdown.is_cancelled() { Ok(()) } else { Err(ControllerError::LeadershipLost) };
            }
        }
    }

    /// A separate sink: the sink of the handlers is fenced, and the loss of the
    /// lease is recorded when the fence is closed already.
    fn lease_events(&self) -> Arc<dyn EventRecorder> {
        (self.process.start_events)(self.process.client.clone(), &self.context.controller)
    }

    fn elector(&self, events: Arc<dyn EventRecorder>) -> Option<Elector> {
        let config = &self.controller.config;
        let election = config.leader.clone()?;
        let client = self.process.lease_client.clone().or_else(|| self.process.client.clone())?;
        let leases = self.names.leases.clone()?;
        let announce = record(events, &leases, &self.process.identity);
        Some(Elector::new(ElectorOptions {
            controller: config.name.as_str().into(),
            mark: leases.mark.into(),
            previous_marks: leases.previous_marks.into_iter().map(Into::into).collect(),
            namespaces: config.namespaces.clone(),
            lease: leases.name,
            namespace: leases.namespace,
            identity: self.process.identity.clone(),
            previous: leases.previous,
            election,
            client,
            metrics: self.process.metrics.clone(),
            leadership: self.leadership.clone(),
            announce,
        }))
    }
}

/// An elector that renews in its own task, so that neither `init` nor filling the
/// queue delays it.
struct BackgroundElector {
    ended: CancellationToken,
    task: AbortOnDropHandle<Elector>,
}

impl BackgroundElector {
    /// Renews until [`end`](Self::end). When the lease is lost for any reason,
    /// `lost` and `stop` are cancelled.
    fn start(mut elector: Elector, stop: &CancellationToken, lost: &CancellationToken) -> Self {
        let ended = CancellationToken::new();
        let (until, guards) = (ended.clone(), (lost.clone().drop_guard(), stop.clone().drop_guard()));
        let task = tokio::spawn(async move {
            let _guards = guards;
            let _ = until.run_until_cancelled(elector.hold()).await;
            elector
        });
        Self { ended, task: AbortOnDropHandle::new(task) }
    }

    /// Stops renewing and returns the elector, which releases the lease.
    async fn end(self) -> Elector {
        self.ended.cancel();
        self.task.await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // It is cancelled only when the runtime ends, which ends this task, too.
            Err(cancelled) => std::panic::panic_any(cancelled.to_string()),
        })
    }
}

/// Records the announcements of the elector as Kubernetes Events on the Lease, with
/// client-go's reason. The elector itself logs them.
fn record(events: Arc<dyn EventRecorder>, leases: &Leases, identity: &str) -> Announce {
    let identity = identity.to_owned();
    let regarding = ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        name: Some(leases.name.clone()),
        namespace: Some(leases.namespace.clone()),
        ..ObjectReference::default()
    };
    Arc::new(move |announcement, uid| {
        let (warning, action, message) = match announcement {
            Announcement::Became => (false, "Lead", format!("{identity} became leader")),
            Announcement::Lost(why) => (true, "StepDown", format!("{identity} stopped leading: {why}")),
            Announcement::Stopped => (false, "StepDown", format!("{identity} stopped leading")),
            Announcement::Foreign { holder } => (
                true,
                "Wait",
                format!("{identity} waits: the lease is held by {holder}, which is not a replica of this controller"),
            ),
        };
        // `kubectl describe` finds Events by the uid.
        let regarding = ObjectReference { uid: uid.map(str::to_owned), ..regarding.clone() };
        events.publish(Note { warning, ..Note::warning(regarding, "LeaderElection", action, message) });
    })
}
