//! The elector: executes the steps of its `LeaseState` with requests to the API server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::Client;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::leadership::CHECK_INTERVAL;
use super::lease::{Lease, LeaseError};
use super::lease_state::{Candidate, LeaseState, LeaseWrite, Lost, NextStep, Terms, WriteResult};
use super::previous::{PreviousLease, RespectedLease};
use super::scope::WatchedNamespaces;
use super::status::{ElectionStatus, Phase, RequestPurpose};
use super::{LeaderElection, Leadership};
use crate::clock::{self, Clock, Moment};
use crate::metrics::{Counter, Gauge, MetricsRecorder};

/// The most time for a release. A process that stops has little time, and a lease
/// that is not released expires.
const RELEASE: Duration = Duration::from_millis(2500);

/// The options of an [`Elector`].
#[expect(missing_debug_implementations, reason = "it is only passed on")]
pub struct ElectorOptions {
    /// The name of the controller.
    pub controller: Arc<str>,
    /// The mark in its records.
    pub mark: Arc<str>,
    /// The marks of its previous names.
    pub previous_marks: Vec<Arc<str>>,
    /// The namespaces that it watches; empty for all.
    pub namespaces: Vec<String>,
    /// The name of the Lease.
    pub lease: String,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The identity in its records.
    pub identity: String,
    /// The timings; its names are not used.
    pub election: LeaderElection,
    /// While one of these is held, ours is not acquired.
    pub previous: Vec<PreviousLease>,
    /// A client that does not retry: each request has a short timeout.
    pub client: Client,
    /// Counts terms, and measures writes.
    pub metrics: Arc<dyn MetricsRecorder>,
    /// Created by [`Leadership::none`].
    pub leadership: Leadership,
    /// Called for each announcement, with the uid of the Lease.
    pub announce: Announce,
}

/// A change of leadership that is recorded as a Kubernetes Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// This process became the leader.
    Became,
    /// It lost leadership, for this reason.
    Lost(String),
    /// It gave up leadership because it was stopped.
    Stopped,
    /// The holder of the lease is not a replica of this controller.
    Foreign {
        /// The mark of the other controller, if there is one, and the identity.
        holder: String,
    },
}

/// Receives announcements about a Lease, with its uid.
pub type Announce = Arc<dyn Fn(Announcement, Option<&str>) + Send + Sync>;

/// Acquires, renews and releases one lease.
#[expect(missing_debug_implementations, reason = "it is only passed on")]
pub struct Elector {
    state: LeaseState,
    lease: Lease,
    previous: Vec<RespectedLease>,
    scope: WatchedNamespaces,
    terms: Terms,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    controller: Arc<str>,
    metrics: Arc<dyn MetricsRecorder>,
    announce: Announce,
    status: Arc<ElectionStatus>,
    watch: Option<BoxStream<'static, Result<Option<Value>, LeaseError>>>,
    /// A failed watch is not opened again before this.
    watch_at: Moment,
    /// `true` if the last announcement was [`Announcement::Became`].
    announced_leading: bool,
}

impl Elector {
    /// An elector that holds nothing. It does not begin before [`campaign`](Self::campaign).
    #[must_use]
    pub fn new(options: ElectorOptions) -> Self {
        let ElectorOptions { controller, mark, lease, namespace, election, leadership, metrics, .. } = options;
        let terms = election.terms();
        let scope = WatchedNamespaces::of(&options.namespaces);
        let me = Candidate {
            identity: options.identity.into(),
            mark: Arc::clone(&mark),
            // A Lease with an explicit name is kept when its controller is renamed.
            previous: options.previous_marks,
        };
        let clock = leadership.clock();
        let object =
            |name: &str| Lease::new(options.client.clone(), &namespace, name, Arc::clone(&mark), scope.clone());
        let status = ElectionStatus::new(
            Arc::clone(&controller),
            format!("{namespace}/{lease}"),
            Arc::clone(&mark),
            scope.clone(),
            terms.lease,
            Arc::clone(&clock),
        );
        let elector = Self {
            state: LeaseState::new(me, terms, clock.now()),
            lease: object(&lease),
            previous: options
                .previous
                .iter()
                .map(|previous| {
                    let object = object(&previous.name).previous();
                    RespectedLease::new(object, previous.owner, terms.lease, terms.retry)
                })
                .collect(),
            scope,
            terms,
            clock,
            leadership,
            controller,
            metrics,
            announce: options.announce,
            status: Arc::new(status),
            watch: None,
            watch_at: Duration::ZERO,
            announced_leading: false,
        };
        elector.register(&lease);
        elector
    }

    /// The state of the election, for `/readyz`.
    #[must_use]
    pub fn status(&self) -> Arc<ElectionStatus> {
        Arc::clone(&self.status)
    }

    /// Campaigns until this process holds the lease. Cancel safe.
    pub async fn campaign(&mut self) {
        self.state.campaign();
        while !self.leads() {
            match self.state.next(self.clock.now(), wall()) {
                NextStep::Write(_) if self.blocked().await => sleep(self.terms.retry).await,
                NextStep::Write(write) => self.write(&write).await,
                NextStep::Read => self.read().await,
                NextStep::Wait(until) => self.wait(until).await,
                NextStep::Lost(_) | NextStep::Idle => self.state.campaign(),
            }
        }
        self.watch = None;
        self.state.set_watching(false);
        self.status.enter(Phase::Leading, false);
        self.metrics.count(&self.controller, Counter::LeaderTransition);
        let identity = &**self.state.identity();
        tracing::info!(controller = &*self.controller, lease = &*self.lease.name, identity, "acquired leadership");
        self.announced_leading = true;
        self.announce(Announcement::Became);
    }

    fn announce(&self, announcement: Announcement) {
        (self.announce)(announcement, self.lease.uid());
    }

    /// Renews the lease until leadership is lost. It runs beside the handlers, also
    /// while they drain. Cancel safe.
    pub async fn hold(&mut self) -> Lost {
        let lost = self.step_until_lost().await;
        // Where no other holder is known, candidates still wait for the whole lease.
        if let Lost::Taken(_) = lost {
            self.leadership.cut();
        } else {
            self.leadership.set(None);
        }
        let reason = match (&lost, self.status.last_error()) {
            (Lost::Deadline, Some(error)) => format!("{lost}: {error}"),
            _ => lost.to_string(),
        };
        self.update();
        tracing::warn!(controller = &*self.controller, lease = &*self.lease.name, "leadership lost: {reason}");
        self.announced_leading = false;
        self.announce(Announcement::Lost(reason));
        lost
    }

    /// Drops leadership at once and releases the lease. It must be called after
    /// the handlers have ended; if they do not end, call
    /// [`abandon`](Self::abandon), which lets the lease expire. It takes at most
    /// half the renew deadline, and at most 2.5 seconds.
    pub async fn release(&mut self) {
        self.abandon();
        self.state.step_down(self.clock.now());
        let patience = RELEASE.min(self.terms.deadline / 2);
        if timeout(patience, self.step_until_lost()).await.is_err() {
            tracing::warn!(
                controller = &*self.controller,
                lease = &*self.lease.name,
                "the lease could not be released in time: another replica acquires it when it expires"
            );
        }
        self.state.abandon();
    }

    /// Renews or releases the lease, until it is lost or not held.
    async fn step_until_lost(&mut self) -> Lost {
        loop {
            let now = self.clock.now();
            match self.state.next(now, wall()) {
                NextStep::Write(write) => self.write(&write).await,
                NextStep::Read => self.read().await,
                NextStep::Wait(until) => sleep(until.saturating_sub(now).min(CHECK_INTERVAL)).await,
                NextStep::Lost(lost) => return lost,
                NextStep::Idle => return Lost::NeverHeld,
            }
        }
    }

    /// Drops leadership at once without releasing the lease.
    pub fn abandon(&mut self) {
        self.watch = None;
        self.state.set_watching(false);
        self.state.abandon();
        self.leadership.set(None);
        self.status.reset();
        if std::mem::take(&mut self.announced_leading) {
            tracing::info!(controller = &*self.controller, lease = &*self.lease.name, "gave up leadership");
            self.announce(Announcement::Stopped);
        }
    }

    /// Returns `true` if a respected Lease has a holder or cannot be read.
    async fn blocked(&mut self) -> bool {
        let patience = self.state.timeout(self.clock.now());
        for previous in &mut self.previous {
            match timeout(patience, previous.holder(&*self.clock)).await.unwrap_or(Err(LeaseError::Silent(patience))) {
                Ok(None) => {}
                Ok(Some(holder)) => {
                    let (lease, owner) = (Arc::clone(&previous.object.name), previous.owner);
                    let phase = Phase::Previous { lease, owner, holder };
                    let text = self.status.standby(&phase).unwrap_or_default();
                    if self.status.enter(phase, true) {
                        tracing::info!(controller = &*self.controller, "{text}");
                    }
                    return true;
                }
                Err(error) => {
                    self.status.record_failure(RequestPurpose::Previous, &error);
                    return true;
                }
            }
        }
        self.status.record_success(RequestPurpose::Previous);
        false
    }

    /// Reads the record.
    async fn read(&mut self) {
        let sent = self.clock.now();
        let patience = self.state.timeout(sent);
        let answer = timeout(patience, self.lease.read()).await.unwrap_or(Err(LeaseError::Silent(patience)));
        let now = self.clock.now();
        match answer {
            Ok(found) => {
                let before = self.state.version();
                let changed = before != found.as_ref().map(|record| &record.version);
                if changed && self.watch.is_some() && before.is_some() {
                    // The watch should have had an event for it, so it hangs.
                    self.unwatch(now);
                }
                self.state.handle_read(sent, now, found);
                self.status.record_success(RequestPurpose::Read);
            }
            Err(error) => {
                self.status.record_failure(RequestPurpose::Read, &error);
                self.state.handle_read_failure(sent, now);
            }
        }
        self.update();
    }

    /// Writes a record, for example a renewal.
    async fn write(&mut self, write: &LeaseWrite) {
        let sent = self.clock.now();
        let patience = self.state.timeout(sent);
        let answer = timeout(patience, self.lease.write(write)).await.unwrap_or(Err(LeaseError::Silent(patience)));
        let now = self.clock.now();
        self.metrics.observe_lease_renewal(&self.controller, now.saturating_sub(sent));
        let answer = match answer {
            Ok(record) => {
                self.status.record_success(RequestPurpose::Write);
                WriteResult::Committed(record)
            }
            Err(LeaseError::Conflict) => WriteResult::Conflict,
            Err(error) => {
                self.status.record_failure(RequestPurpose::Write, &error);
                WriteResult::Failed
            }
        };
        self.state.handle_write_result(now, answer);
        self.update();
    }

    /// Waits until the given time or a change of the record.
    async fn wait(&mut self, until: Moment) {
        let now = self.clock.now();
        if self.watch.is_none() && now >= self.watch_at {
            self.watch = Some(self.lease.watch());
            // If the watch fails, the record is polled.
            self.state.set_watching(true);
        }
        let pause = until.saturating_sub(now).min(CHECK_INTERVAL);
        let Some(watch) = &mut self.watch else { return sleep(pause).await };
        let event = tokio::select! {
            event = watch.next() => event,
            () = sleep(pause) => return,
        };
        let now = self.clock.now();
        match event {
            Some(Ok(object)) => match object.as_ref().map(|object| self.lease.record(object)).transpose() {
                Ok(found) => {
                    self.status.record_watch_event();
                    if self.state.handle_watch_event(now, found) && self.lease.keep(object).is_ok() {
                        self.update();
                    }
                }
                Err(error) => self.status.record_failure(RequestPurpose::Read, &error),
            },
            Some(Err(error)) => {
                self.unwatch(now);
                if !error.is_transient() {
                    self.status.record_missing_watch(&error);
                    self.watch_at = now + self.terms.lease;
                }
            }
            None => self.unwatch(now),
        }
    }

    /// Closes the watch; the record is polled for a while.
    fn unwatch(&mut self, now: Moment) {
        self.watch = None;
        self.watch_at = now + self.terms.retry;
        self.state.set_watching(false);
    }

    /// Returns `true` if this process is the leader according to both its `LeaseState` and the token.
    fn leads(&self) -> bool {
        self.leadership.is_held() && self.state.until().is_some()
    }

    /// Updates the token and the status from the `LeaseState`.
    fn update(&self) {
        self.leadership.set(self.state.until());
        let holder = self.state.holder().cloned();
        let phase = match (self.state.foreign().cloned(), holder) {
            _ if self.state.until().is_some() => Phase::Leading,
            (Some(mark), _) if self.state.is_shared(&mark) => Phase::Shared,
            (Some(mark), holder) => Phase::Foreign { mark, holder: holder.unwrap_or_default() },
            (None, None) => Phase::Free,
            (None, Some(holder)) if self.state.is_marked() => match self.state.scope() {
                Some(scope) if *scope != self.scope => Phase::Apart { holder, scope: scope.clone() },
                _ => Phase::Standby(holder),
            },
            (None, Some(holder)) => Phase::Unmarked(holder),
        };
        if !self.status.enter(phase.clone(), self.state.waits(self.clock.now())) {
            return;
        }
        let text = self.status.standby(&phase).unwrap_or_default();
        let (controller, lease) = (&*self.controller, &*self.lease.name);
        match phase {
            Phase::Foreign { mark, holder } => {
                tracing::error!(controller, "{}", self.status.dispute(&mark, &holder));
                let holder = if holder.is_empty() { mark.to_string() } else { format!("{mark} ({holder})") };
                self.announce(Announcement::Foreign { holder });
            }
            Phase::Unmarked(holder) => {
                tracing::warn!(controller, lease, "{text}: it is acquired when it expires or is released");
                self.announce(Announcement::Foreign { holder: holder.to_string() });
            }
            // It is stepping down.
            Phase::Standby(holder) if holder == *self.state.identity() => {}
            Phase::Standby(_) => tracing::info!(controller, lease, "{text}"),
            Phase::Apart { .. } | Phase::Shared => tracing::warn!(controller, lease, "{text}"),
            Phase::Free | Phase::Previous { .. } | Phase::Leading => {}
        }
    }

    /// Registers the gauges. For the second elector of a controller they exist
    /// already.
    fn register(&self, lease: &str) {
        let (held, left) = (self.leadership.clone(), self.leadership.clone());
        let gauges: [(Gauge, crate::metrics::ReadGauge); 2] = [
            (Gauge::Leader { lease: lease.to_owned() }, Box::new(move || f64::from(u8::from(held.is_held())))),
            (Gauge::LeaseTimeLeft, Box::new(move || left.time_left().unwrap_or_default().as_secs_f64())),
        ];
        for (gauge, read) in gauges {
            if let Err(error) = self.metrics.register_gauge(&self.controller, gauge, read) {
                tracing::debug!(controller = &*self.controller, "{error}");
            }
        }
    }
}

/// The time of the wall clock, in microseconds since 1970. It is only information
/// for readers of the record.
fn wall() -> i64 {
    clock::wall().as_microsecond()
}
