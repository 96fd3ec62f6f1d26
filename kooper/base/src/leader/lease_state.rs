//! The state of a candidate or leader, and its next step. It does no I/O; the
//! elector and the simulation both drive it.

use std::sync::Arc;
use std::time::Duration;

use super::scope::WatchedNamespaces;
use crate::backoff::fraction;
use crate::clock::Moment;

mod known;
mod step;
mod terms;

use known::{KnownLease, SentWrite};
pub use known::{LeaseWrite, Record, WriteResult};
pub use step::{Lost, NextStep};
pub use terms::{Candidate, RequestTimeout, Terms};

/// The end of the mark of a controller if several replicas share its work in shards. A leader never takes such a Lease: it
/// waits until the last of them has returned it, without this end.
pub const SHARDS_MARK: &str = "/shards";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Campaigning,
    Leading {
        /// When the token expires.
        until: Moment,
        /// When the last acknowledged renewal was sent.
        sent: Moment,
    },
    SteppingDown {
        /// The most requests that may still be sent.
        left: u8,
    },
    Idle,
}

/// A candidate for a lease, or its holder.
#[derive(Debug)]
pub struct LeaseState {
    me: Candidate,
    terms: Terms,
    stage: Stage,
    known: KnownLease,
    /// When a change of the record was last observed.
    changed: Moment,
    /// The record has had fewer holders than the one before: etcd was restored from a backup, and the holder from before may
    /// still work.
    went_back: bool,
    /// When the last successful read was sent.
    read_at: Moment,
    must_read: bool,
    watching: bool,
    /// No request is sent before this.
    not_before: Moment,
    timeout: RequestTimeout,
    /// Writes whose result is unknown, the latest last.
    pending: Vec<SentWrite>,
    /// The renew time of the last acknowledged write.
    mine: Option<i64>,
    last_renewed: i64,
    lost: Option<Lost>,
    random: u64,
}

impl LeaseState {
    /// A candidate that does not campaign yet.
    #[must_use]
    pub fn new(me: Candidate, terms: Terms, now: Moment) -> Self {
        let random = me.identity.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(131).wrapping_add(byte.into()));
        Self {
            me,
            terms,
            stage: Stage::Idle,
            known: KnownLease::Nothing,
            changed: now,
            went_back: false,
            read_at: now,
            must_read: true,
            watching: false,
            not_before: now,
            timeout: RequestTimeout::new(&terms),
            pending: Vec::new(),
            mine: None,
            last_renewed: 0,
            lost: None,
            random,
        }
    }

    /// Becomes a candidate, unless it is one or is the leader.
    pub fn campaign(&mut self) {
        if matches!(self.stage, Stage::SteppingDown { .. } | Stage::Idle) {
            self.stage = Stage::Campaigning;
            self.must_read = true;
        }
        self.lost = None;
    }

    /// Steps down, and releases the lease if it may hold it.
    pub fn step_down(&mut self, now: Moment) {
        let may_hold = self.mine.is_some() || !self.pending.is_empty();
        self.stage = if may_hold { Stage::SteppingDown { left: 6 } } else { Stage::Idle };
        self.must_read = true;
        self.not_before = now;
        self.lost = None;
    }

    /// Lets a leader renew this long after its last renewal, if that is before its time. An attempt
    /// that failed is not repeated sooner.
    pub fn renew_after(&mut self, pause: Duration) {
        if let Stage::Leading { sent, .. } = self.stage
            && !self.must_read
        {
            self.not_before = self.not_before.min(sent + pause);
        }
    }

    /// Steps down without releasing the lease: it must expire.
    pub(super) fn abandon(&mut self) {
        self.stage = Stage::Idle;
        self.lost = None;
    }

    /// Sets whether changes are watched; otherwise the record is polled.
    pub(super) fn set_watching(&mut self, watching: bool) {
        self.watching = watching;
    }

    /// When its leadership expires, if it is the leader.
    #[must_use]
    pub fn until(&self) -> Option<Moment> {
        match self.stage {
            Stage::Leading { until, .. } => Some(until),
            _ => None,
        }
    }

    /// The timeout of a request. A response after the token has expired would be useless.
    pub(super) fn timeout(&self, now: Moment) -> Duration {
        let left = self.until().map_or(Duration::MAX, |until| until.saturating_sub(now));
        self.timeout.get().min(left).max(Duration::from_millis(1))
    }

    /// The identity of this candidate.
    pub(super) fn identity(&self) -> &Arc<str> {
        &self.me.identity
    }

    /// The holder of the lease, if one is known.
    #[must_use]
    pub fn holder(&self) -> Option<&Arc<str>> {
        self.known.record().map(|record| &record.holder).filter(|holder| !holder.is_empty())
    }

    /// When the lease was acquired by this candidate, in microseconds of its wall clock; `None`
    /// if the last known record is not one that it wrote.
    #[must_use]
    pub fn acquired(&self) -> Option<i64> {
        self.known.record().filter(|record| self.owns(record)).and_then(|record| record.acquired)
    }

    /// The last known version.
    pub(super) fn version(&self) -> Option<&Arc<str>> {
        self.known.version()
    }

    /// Returns `true` if the record has the mark of a controller.
    pub(super) fn is_marked(&self) -> bool {
        self.known.record().is_some_and(|record| record.mark.is_some())
    }

    /// The namespaces that its holder watches, if the record states them.
    pub(super) fn scope(&self) -> Option<&WatchedNamespaces> {
        self.known.record().and_then(|record| record.scope.as_ref())
    }

    /// The mark of another controller on the record.
    pub(super) fn foreign(&self) -> Option<&Arc<str>> {
        let record = self.known.record().filter(|record| !self.owns(record))?;
        record.mark.as_ref().filter(|mark| !self.is_own(mark))
    }

    fn is_own(&self, mark: &str) -> bool {
        *mark == *self.me.mark || self.me.previous.iter().any(|previous| *mark == **previous)
    }

    /// Returns `true` if a mark is that of the shards of this controller.
    pub(super) fn is_shared(&self, mark: &str) -> bool {
        mark.strip_suffix(SHARDS_MARK).is_some_and(|mark| self.is_own(mark))
    }

    /// The next step. `wall` is the time of the wall clock in microseconds; it is
    /// written to records, but no decision depends on it.
    pub fn next(&mut self, now: Moment, wall: i64) -> NextStep {
        if let Some(lost) = self.lost.take() {
            return NextStep::Lost(lost);
        }
        match self.stage {
            Stage::Campaigning => self.next_campaigning(now, wall),
            Stage::Leading { until, .. } if now >= until => {
                self.lose(Lost::Deadline);
                self.lost.take().map_or(NextStep::Idle, NextStep::Lost)
            }
            Stage::Leading { until, .. } if now < self.not_before => NextStep::Wait(until.min(self.not_before)),
            Stage::Leading { .. } if self.must_read => NextStep::Read,
            Stage::Leading { .. } => NextStep::Write(self.write(now, wall)),
            Stage::SteppingDown { left } => self.next_stepping_down(left, now, wall),
            Stage::Idle => NextStep::Idle,
        }
    }

    fn next_campaigning(&mut self, now: Moment, wall: i64) -> NextStep {
        if now < self.not_before {
            return NextStep::Wait(self.not_before);
        }
        if self.must_read {
            return NextStep::Read;
        }
        let free_at = self.free_at();
        if let Some(free_at) = free_at
            && (free_at.is_zero() || (now >= free_at && self.read_at >= free_at))
        {
            return NextStep::Write(self.write(now, wall));
        }
        // Another candidate holds the lease. A change is watched or polled; before
        // the lease is treated as expired, it is read again.
        let at = free_at.unwrap_or(self.read_at + self.terms.lease);
        let at = if self.watching { at } else { at.min(self.read_at + self.jittered(self.terms.retry, self.read_at)) };
        if now < at {
            return NextStep::Wait(at);
        }
        NextStep::Read
    }

    /// Returns `true` while another candidate holds the lease and may renew it.
    #[must_use]
    pub fn waits(&self, now: Moment) -> bool {
        self.known.record().is_some() && self.free_at().is_none_or(|free| now < free)
    }

    /// When this candidate may acquire the lease: zero for at once, `None` if it
    /// must not as long as the record does not change.
    fn free_at(&self) -> Option<Moment> {
        match &self.known {
            KnownLease::Nothing => None,
            KnownLease::Absent { guarded } => Some(*guarded),
            KnownLease::Held(record) if self.owns(record) => Some(Duration::ZERO),
            KnownLease::Held(_) if self.foreign().is_some() => None,
            KnownLease::Held(record) if record.is_released() && !self.went_back => Some(Duration::ZERO),
            KnownLease::Held(record) => Some(self.expires(record)),
        }
    }

    /// When a record expires, with some jitter so that candidates do not write at
    /// the same time.
    fn expires(&self, record: &Record) -> Moment {
        let lease = record.lease.unwrap_or_default().max(self.terms.lease);
        self.changed + lease + self.terms.retry.mul_f64(fraction(self.random ^ self.changed.as_secs()) / 8.0)
    }

    fn next_stepping_down(&mut self, left: u8, now: Moment, wall: i64) -> NextStep {
        if now < self.not_before {
            return NextStep::Wait(self.not_before);
        }
        let ours = self.known.record().is_some_and(|record| self.owns(record));
        if left == 0 || !(self.must_read || ours) {
            if left > 0 {
                // It was read, and another candidate holds it: there is nothing to release.
                self.mine = None;
            }
            self.stage = Stage::Idle;
            return NextStep::Idle;
        }
        self.stage = Stage::SteppingDown { left: left - 1 };
        if self.must_read { NextStep::Read } else { NextStep::Write(self.write(now, wall)) }
    }

    /// The write that replaces the last known record. Unless it is acknowledged,
    /// the next request is a read.
    fn write(&mut self, now: Moment, wall: i64) -> LeaseWrite {
        self.last_renewed = wall.max(self.last_renewed + 1);
        let renewed = self.last_renewed;
        let current = self.known.record();
        let owned = current.filter(|record| self.owns(record));
        let acquired = owned.and_then(|record| record.acquired).unwrap_or(renewed);
        let transitions = match (current, owned) {
            (_, Some(record)) => record.transitions,
            (Some(record), None) => record.transitions.saturating_add(1),
            (None, _) => 0,
        };
        let base = current.map(|record| Arc::clone(&record.version));
        let leaving = matches!(self.stage, Stage::SteppingDown { .. });
        let (holder, seconds) =
            if leaving { (Arc::from(""), 1) } else { (Arc::clone(&self.me.identity), self.terms.seconds()) };
        self.must_read = true;
        self.not_before = now;
        if self.pending.len() == SentWrite::MOST {
            self.pending.remove(0);
        }
        self.pending.push(SentWrite { base: base.clone(), renewed, at: now });
        LeaseWrite { base, holder, seconds, acquired, renewed, transitions }
    }

    /// Handles the result of a read that was sent at `sent`.
    pub fn handle_read(&mut self, sent: Moment, now: Moment, found: Option<Record>) {
        let before = self.known.version().cloned();
        self.timeout.observe(now.saturating_sub(sent));
        self.learn(now, found);
        let version = self.known.version().cloned();
        self.read_at = sent;
        self.must_read = false;
        let lost_race = self.pending.last().is_some_and(|sent| sent.base == version) && before == version;
        let ours = self.known.record().filter(|record| self.owns(record));
        let landed = ours.and_then(|record| self.pending.iter().find(|sent| Some(sent.renewed) == record.renewed));
        let landed = landed.cloned();
        // A write whose base was replaced cannot be committed any more.
        self.pending.retain(|sent| sent.base == version);
        match (self.stage, &self.known) {
            (Stage::Leading { sent: last, .. }, KnownLease::Held(record)) if landed.is_some() || self.owns(record) => {
                if let Some(landed) = landed {
                    self.mine = Some(landed.renewed);
                    self.lead(last.max(landed.at));
                }
                // The write was refused, but not for another version.
                self.not_before = if lost_race { now.max(sent + self.terms.retry / 4) } else { now };
            }
            (Stage::Leading { .. }, KnownLease::Held(record)) if record.holder.is_empty() => self.lose(Lost::Emptied),
            (Stage::Leading { .. }, KnownLease::Held(record)) => {
                let holder = Arc::clone(&record.holder);
                self.lose(Lost::Taken(holder));
            }
            (Stage::Leading { .. }, KnownLease::Absent { .. } | KnownLease::Nothing) => self.lose(Lost::Deleted),
            // The write failed and nothing changed: do not retry at once.
            (Stage::Campaigning, _) if lost_race => self.not_before = now + self.jittered(self.terms.retry, now),
            (Stage::Campaigning | Stage::SteppingDown { .. } | Stage::Idle, _) => {
                if let Some(landed) = landed {
                    self.mine = Some(landed.renewed);
                }
            }
        }
    }

    /// Handles the failure of a read that was sent at `sent`.
    pub fn handle_read_failure(&mut self, sent: Moment, now: Moment) {
        self.timeout.observe(now.saturating_sub(sent));
        self.must_read = true;
        self.pause(sent, now);
    }

    /// Handles an event of the watch; returns whether it was new. An event may be
    /// older than the last known record, so only candidates use it.
    pub(super) fn handle_watch_event(&mut self, now: Moment, found: Option<Record>) -> bool {
        let older = found.as_ref().is_some_and(|record| {
            let known = self.known.version().and_then(|version| version.parse::<u64>().ok());
            known.zip(record.version.parse::<u64>().ok()).is_some_and(|(known, version)| version <= known)
        });
        let news = found.is_some() || self.known.record().is_some();
        if self.stage != Stage::Campaigning || older || !news {
            return false;
        }
        self.learn(now, found);
        if self.pending.is_empty() {
            self.must_read = false;
            self.not_before = now;
        }
        true
    }

    /// Handles the result of the last write.
    pub fn handle_write_result(&mut self, now: Moment, answer: WriteResult) {
        let Some(sent) = self.pending.last().cloned() else { return };
        self.timeout.observe(now.saturating_sub(sent.at));
        match answer {
            WriteResult::Committed(record) => {
                self.pending.clear();
                self.mine = Some(sent.renewed);
                self.must_read = false;
                let is_released = record.is_released();
                self.learn(now, Some(record));
                match self.stage {
                    Stage::Campaigning => self.lead(sent.at),
                    Stage::Leading { sent: last, .. } => self.lead(last.max(sent.at)),
                    Stage::SteppingDown { .. } if is_released => {
                        self.mine = None;
                        self.stage = Stage::Idle;
                    }
                    // A write from before the step-down: the release follows.
                    Stage::SteppingDown { .. } | Stage::Idle => {}
                }
                // If the response was so slow that the token has expired, write again at once.
                let until = self.until().filter(|until| now < *until);
                self.not_before = if until.is_some() { sent.at + self.terms.retry } else { now };
            }
            WriteResult::Conflict => self.not_before = now,
            WriteResult::Failed => self.pause(sent.at, now),
        }
    }

    /// Leads from when an acknowledged renewal was sent.
    fn lead(&mut self, sent: Moment) {
        self.stage = Stage::Leading { until: sent + self.terms.validity, sent };
    }

    fn lose(&mut self, reason: Lost) {
        self.stage = Stage::Campaigning;
        self.must_read |= reason == Lost::Deadline;
        self.lost = Some(reason);
    }

    /// Delays the next request after a failure: a leader retries soon, a candidate
    /// later.
    fn pause(&mut self, sent: Moment, now: Moment) {
        self.not_before = match self.stage {
            Stage::Campaigning | Stage::Idle => now + self.jittered(self.terms.retry, now),
            Stage::Leading { .. } | Stage::SteppingDown { .. } => now.max(sent + self.terms.retry / 4),
        };
    }

    fn jittered(&self, pause: Duration, at: Moment) -> Duration {
        pause.mul_f64(0.8 + 0.4 * fraction(self.random ^ at.as_micros() as u64))
    }

    /// Returns `true` if this candidate wrote the record. The identity alone is not enough:
    /// another elector of this process has the same one.
    fn owns(&self, record: &Record) -> bool {
        record.holder == self.me.identity
            && record.renewed.is_some_and(|renewed| {
                self.mine == Some(renewed) || self.pending.iter().any(|sent| sent.renewed == renewed)
            })
    }

    fn learn(&mut self, now: Moment, found: Option<Record>) {
        match found {
            Some(record) => {
                // If the own record comes back from a backup, the candidate that has replaced it may still work.
                if !self.owns(&record) {
                    self.mine = None;
                }
                let went_back = self.known.record().is_some_and(|known| record.transitions < known.transitions);
                if !self.known.record().is_some_and(|known| known.is_same_term(&record)) {
                    (self.changed, self.went_back) = (now, went_back);
                }
                self.known = KnownLease::Held(record);
            }
            None => {
                // Deleting a Lease does not stop its holder.
                let guarded = match &self.known {
                    KnownLease::Held(record) if !self.owns(record) && (self.went_back || !record.is_released()) => {
                        self.expires(record)
                    }
                    KnownLease::Absent { guarded } => *guarded,
                    KnownLease::Held(_) | KnownLease::Nothing => Duration::ZERO,
                };
                self.known = KnownLease::Absent { guarded };
            }
        }
    }
}

#[cfg(test)]
impl LeaseState {
    /// Changes the time at which the last write was sent.
    pub(super) fn sent_at(&mut self, moment: Moment) {
        if let Some(sent) = self.pending.last_mut() {
            sent.at = moment;
        }
    }
}
