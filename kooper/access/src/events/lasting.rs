//! Events about something that lasts, such as calls that keep failing: one for each
//! object and reason, which is kept up to date.
//!
//! Its name follows from the object and the reason, so that another replica, or this
//! one after a restart, continues the same Event. Its message changes, which
//! the API allows in the group of core only.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kooper_runtime::Note;
use kooper_runtime::internal::backoff::TokenBucket;
use tokio::time::Instant;

/// Maximum number of Events that are written at once, and then per second. A thousand
/// objects that fail together must not overload the API server.
const BURST: u32 = 100;
const PER_SECOND: u32 = 10;

/// Events of no more objects than this wait to be written, and of no more the counts are
/// known.
const WAITING: usize = 16_384;
const COUNTED: usize = 4096;

/// Decides which of these Events are written, and when.
#[derive(Debug)]
pub(super) struct LastingEvents {
    waiting: ByObject<PendingNote>,
    /// The ones that wait, in the order in which they began to.
    order: BTreeMap<u64, Key>,
    /// The last place in that order.
    last: u64,
    /// Number of times that each Event was written, and the time of the last write.
    counts: ByObject<(i32, Instant)>,
    bucket: TokenBucket,
}

/// Values by the uid of an object, and by the reason of an Event.
type ByObject<T> = HashMap<String, BTreeMap<String, T>>;
type Key = (String, String);

#[derive(Debug)]
struct PendingNote {
    place: u64,
    note: Note,
    at: Timestamp,
}

/// An Event to write.
#[derive(Debug, PartialEq)]
pub(super) struct LastingWrite {
    pub(super) note: Note,
    pub(super) at: Timestamp,
    /// Number of previous writes; `None` if this process has not written the Event.
    pub(super) before: Option<i32>,
}

impl LastingEvents {
    pub(super) fn new(now: Instant) -> Self {
        let (waiting, order, counts) = (HashMap::new(), BTreeMap::new(), HashMap::new());
        Self { waiting, order, last: 0, counts, bucket: TokenBucket::new(PER_SECOND, BURST, now) }
    }

    /// Takes a note, which replaces one that waits; `false` if too many wait. A Normal
    /// one ends what the Warnings of its object began: those that still wait are not
    /// written, and if none was written before, it is not either.
    pub(super) fn take(&mut self, note: Note, at: Timestamp) -> bool {
        let (uid, reason) = key(&note);
        if !note.warning
            && let Some(ended) = self.waiting.remove(&uid)
        {
            ended.values().for_each(|one| drop(self.order.remove(&one.place)));
            if !self.counts.contains_key(&uid) {
                return true;
            }
        }
        if self.waiting.len() >= WAITING && !self.waiting.contains_key(&uid) {
            return false;
        }
        match self.waiting.entry(uid.clone()).or_default().entry(reason) {
            Entry::Occupied(mut known) => (known.get_mut().note, known.get_mut().at) = (note, at),
            Entry::Vacant(new) => {
                self.last += 1;
                self.order.insert(self.last, (uid, new.key().clone()));
                new.insert(PendingNote { place: self.last, note, at });
            }
        }
        true
    }

    /// The next one to write, if one may be written now.
    pub(super) fn due(&mut self, now: Instant) -> Option<LastingWrite> {
        if self.bucket.next(now) > now {
            return None;
        }
        let (_, (uid, reason)) = self.order.pop_first()?;
        let of_object = self.waiting.get_mut(&uid)?;
        let PendingNote { note, at, .. } = of_object.remove(&reason)?;
        if of_object.is_empty() {
            self.waiting.remove(&uid);
        }
        // It has a token.
        let _ = self.bucket.take(now);
        let before = self.counts.get(&uid).and_then(|counts| counts.get(&reason)).map(|(count, _)| *count);
        Some(LastingWrite { note, at, before })
    }

    /// Returns the time until an Event may be written; `None` if none waits.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.bucket.next(now).saturating_duration_since(now))
    }

    /// Notes how often an Event has been written.
    pub(super) fn written(&mut self, note: &Note, count: i32, now: Instant) {
        let (uid, reason) = key(note);
        if self.counts.len() >= COUNTED && !self.counts.contains_key(&uid) {
            let last = |counts: &BTreeMap<String, (i32, Instant)>| counts.values().map(|(_, at)| *at).max();
            let mut times: Vec<_> = self.counts.iter().map(|(uid, counts)| (last(counts), uid.clone())).collect();
            times.sort_unstable();
            for (_, uid) in times.into_iter().take(COUNTED / 4) {
                self.counts.remove(&uid);
            }
        }
        self.counts.entry(uid).or_default().insert(reason, (count, now));
    }

    /// Forgets an Event that has expired or could not be written.
    pub(super) fn forget(&mut self, note: &Note) {
        let (uid, reason) = key(note);
        if let Some(counts) = self.counts.get_mut(&uid) {
            counts.remove(&reason);
            if counts.is_empty() {
                self.counts.remove(&uid);
            }
        }
    }
}

fn key(note: &Note) -> Key {
    (note.regarding.uid.clone().unwrap_or_default(), note.reason.clone())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    fn note(uid: &str, reason: &str, message: &str) -> Note {
        let regarding = ObjectReference { uid: Some(uid.to_owned()), ..ObjectReference::default() };
        let mut note = Note::warning(regarding, reason, "Do", message);
        note.warning = reason != "Recovered";
        note
    }

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn an_event_is_written_once_and_then_updated() {
        let start = Instant::now();
        let mut lasting = LastingEvents::new(start);
        assert!(lasting.take(note("a", "Failed", "one"), AT) && lasting.take(note("a", "Failed", "two"), AT));
        let due = lasting.due(start).unwrap();
        assert_eq!((&*due.note.message, due.before), ("two", None));
        assert_eq!(lasting.due(start), None);
        lasting.written(&due.note, 1, start);
        assert!(lasting.take(note("a", "Failed", "three"), AT));
        assert_eq!(lasting.due(start).unwrap().before, Some(1));
        lasting.forget(&due.note);
        assert!(lasting.take(note("a", "Failed", "four"), AT) && lasting.take(note("a", "Other", "five"), AT));
        assert_eq!(lasting.due(start).unwrap().before, None);
        assert_eq!(lasting.due(start).unwrap().note.message, "five");
    }

    #[test]
    fn a_thousand_objects_that_fail_at_once_are_written_one_after_the_other() {
        let start = Instant::now();
        let mut lasting = LastingEvents::new(start);
        for n in 0..1000 {
            assert!(lasting.take(note(&n.to_string(), "Failed", ""), AT));
        }
        let count = |lasting: &mut LastingEvents, now| std::iter::from_fn(|| lasting.due(now)).count();
        assert_eq!(count(&mut lasting, start), 100);
        assert_eq!(lasting.wait(start), Some(Duration::from_millis(100)));
        assert_eq!(count(&mut lasting, start + Duration::from_secs(1)), 10);
        assert_eq!(count(&mut lasting, start + Duration::from_secs(3600)), 100);
        // The rest have recovered before they were written: neither is.
        for n in 0..1000 {
            assert!(lasting.take(note(&n.to_string(), "Recovered", ""), AT));
        }
        assert_eq!(lasting.waiting.len(), 210);
    }

    #[test]
    fn a_recovery_is_written_after_its_warning_only() {
        let start = Instant::now();
        let mut lasting = LastingEvents::new(start);
        lasting.take(note("a", "Failed", ""), AT);
        lasting.take(note("a", "Recovered", ""), AT);
        assert_eq!((lasting.due(start), lasting.wait(start)), (None, None));
        assert!(lasting.order.is_empty(), "none is searched for");
        lasting.take(note("a", "Failed", ""), AT);
        let due = lasting.due(start).unwrap();
        lasting.written(&due.note, 1, start);
        lasting.take(note("a", "Failed", ""), AT);
        lasting.take(note("a", "Recovered", ""), AT);
        assert_eq!(lasting.due(start).unwrap().note.reason, "Recovered");
        assert_eq!(lasting.due(start), None);
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let mut lasting = LastingEvents::new(start);
        let taken = (0..WAITING + 10).filter(|n| lasting.take(note(&n.to_string(), "Failed", ""), AT)).count();
        assert_eq!((taken, lasting.waiting.len(), lasting.order.len()), (WAITING, WAITING, WAITING));
        for n in 0..2 * COUNTED {
            lasting.written(&note(&n.to_string(), "Failed", ""), 1, start);
        }
        assert!(lasting.counts.len() <= COUNTED);
    }
}
