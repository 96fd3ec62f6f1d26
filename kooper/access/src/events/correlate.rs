//! Combines equal Events into one with a count.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kooper_runtime::Note;
use tokio::time::Instant;

use super::limit::Limit;

/// An Event that repeats within this time is counted, and not written again.
const WINDOW: Duration = Duration::from_secs(360);

/// No more Events than this are remembered. The ones that did not repeat for the
/// longest time are forgotten first.
const SERIES: usize = 4096;

/// The tokens of an object that repetitions leave to its new Events: a count matters less.
const RESERVE: u32 = 5;

/// Decides which Events are written.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: HashMap<String, RecordedEvent>,
    /// Those with something to write, in their order.
    unwritten: Vec<String>,
    /// When expired series were last removed.
    swept: Option<Instant>,
    limit: Limit,
}

#[derive(Debug)]
struct RecordedEvent {
    note: Note,
    /// The Event as it was written first.
    name: Option<String>,
    count: i32,
    first: Timestamp,
    last: Timestamp,
    seen: Instant,
}

/// Something to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EventWrite {
    /// A new Event.
    New { key: String, note: Note, first: Timestamp },
    /// A repetition of an Event that was written.
    More { key: String, note: Note, name: String, count: i32, last: Timestamp },
}

impl Correlator {
    /// Takes a note, or returns its object if that has exceeded its limit.
    pub(super) fn take(&mut self, note: Note, now: Instant, at: Timestamp) -> Result<(), Box<ObjectReference>> {
        let key = key(&note);
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= WINDOW) {
            self.series.retain(|_, series| now.saturating_duration_since(series.seen) < WINDOW);
            self.swept = Some(now);
        }
        let known = self.series.get_mut(&key).filter(|series| now.saturating_duration_since(series.seen) < WINDOW);
        if let Some(series) = known {
            series.count = series.count.saturating_add(1);
            (series.last, series.seen) = (at, now);
        } else {
            if !self.limit.take(&object(&note.regarding), now, 0) {
                return Err(Box::new(note.regarding));
            }
            if self.series.len() >= SERIES {
                self.make_room();
            }
            self.series
                .insert(key.clone(), RecordedEvent { note, name: None, count: 1, first: at, last: at, seen: now });
        }
        if !self.unwritten.contains(&key) {
            self.unwritten.push(key);
        }
        Ok(())
    }

    /// Forgets the quarter of the written Events that did not repeat for the
    /// longest time.
    fn make_room(&mut self) {
        let written = self.series.iter().filter(|(key, _)| !self.unwritten.contains(*key));
        let mut written: Vec<_> = written.map(|(key, series)| (series.seen, key.clone())).collect();
        written.sort_unstable();
        for (_, key) in written.into_iter().take(SERIES / 4) {
            self.series.remove(&key);
        }
    }

    /// The Events to write now. One without a token waits until it repeats.
    pub(super) fn due(&mut self, now: Instant) -> Vec<EventWrite> {
        let mut due = Vec::new();
        for key in std::mem::take(&mut self.unwritten) {
            let Some(series) = self.series.get(&key) else { continue };
            let (note, last, count) = (series.note.clone(), series.last, series.count);
            match series.name.clone() {
                None => due.push(EventWrite::New { key, note, first: series.first }),
                Some(name) if self.limit.take(&object(&note.regarding), now, RESERVE) => {
                    due.push(EventWrite::More { key, note, name, count, last });
                }
                Some(_) => {}
            }
        }
        due
    }

    /// Notes that an Event was written under this name. Repetitions that arrived
    /// before that are still to be written.
    pub(super) fn written(&mut self, key: &str, name: String) {
        let Some(series) = self.series.get_mut(key) else { return };
        series.name = Some(name);
        if series.count > 1 {
            self.unwritten.push(key.to_owned());
        }
    }

    /// Forgets an Event that could not be written or has expired: the next one is
    /// new.
    pub(super) fn forget(&mut self, key: &str) {
        self.series.remove(key);
    }
}

/// A key that is equal for notes of the same Event.
fn key(note: &Note) -> String {
    let related = note.related.as_ref().map(object).unwrap_or_default();
    let kind = if note.warning { "Warning" } else { "Normal" };
    [&object(&note.regarding), &related, kind, &note.reason, &note.action, &note.message].join("\n")
}

fn object(reference: &ObjectReference) -> String {
    let ObjectReference { api_version, kind, namespace, name, uid, field_path, .. } = reference;
    let parts = [api_version, kind, namespace, name, uid, field_path];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, reason: &str) -> Note {
        let regarding = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        let mut note = Note::warning(regarding, reason, "Do", "as before");
        note.warning = false;
        note
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn written(correlator: &mut Correlator, now: Instant) -> Vec<EventWrite> {
        let due = correlator.due(now);
        for one in &due {
            if let EventWrite::New { key, .. } = one {
                correlator.written(key, "event".to_owned());
            }
        }
        due
    }

    #[test]
    fn equal_events_become_one_with_a_count() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(correlator.take(note("a", "Synced"), start, at(1)).is_ok());
        assert!(matches!(&*written(&mut correlator, start), [EventWrite::New { .. }]));
        assert!(
            correlator.take(note("a", "Synced"), start, at(2)).is_ok()
                && correlator.take(note("a", "Synced"), start, at(3)).is_ok()
        );
        assert!(correlator.take(note("a", "Scaled"), start, at(4)).is_ok());
        let due = written(&mut correlator, start);
        assert!(matches!(&due[0], EventWrite::More { count: 3, last, .. } if *last == at(3)), "{due:?}");
        assert!(matches!(&due[1], EventWrite::New { note, .. } if note.reason == "Scaled"), "{due:?}");
        assert_eq!(correlator.due(start), []);
    }

    #[test]
    fn repetitions_before_the_first_is_written_are_written_after_it() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(
            correlator.take(note("a", "Synced"), start, at(1)).is_ok()
                && correlator.take(note("a", "Synced"), start, at(2)).is_ok()
        );
        assert!(matches!(&*written(&mut correlator, start), [EventWrite::New { .. }]));
        assert!(matches!(&*written(&mut correlator, start), [EventWrite::More { count: 2, .. }]));
    }

    #[test]
    fn an_event_that_repeats_after_some_minutes_is_new() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(correlator.take(note("a", "Synced"), start, at(1)).is_ok());
        written(&mut correlator, start);
        assert!(correlator.take(note("a", "Synced"), start + WINDOW, at(361)).is_ok());
        assert!(matches!(&*correlator.due(start + WINDOW), [EventWrite::New { first, .. }] if *first == at(361)));
    }

    #[test]
    fn the_limit_of_one_object_does_not_affect_another() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let taken = (0..40).filter(|n| correlator.take(note("a", &format!("Reason{n}")), start, at(1)).is_ok()).count();
        assert_eq!(taken, 25);
        assert!(correlator.take(note("b", "Synced"), start, at(1)).is_ok());
        assert_eq!(written(&mut correlator, start).len(), 26);
        assert!(correlator.take(note("a", "Reason0"), start, at(2)).is_ok(), "a written Event is still counted");
        assert_eq!(correlator.due(start), [], "but it is not written at once");
        let mut due: Vec<EventWrite> = Vec::new();
        for repetition in 1..=6 {
            assert_eq!(due, [], "it leaves five to new Events");
            let later = start + Duration::from_secs(301) * repetition;
            assert!(correlator.take(note("a", "Reason0"), later, at(302)).is_ok());
            due = correlator.due(later);
        }
        assert!(matches!(&*due, [EventWrite::More { count: 8, .. }]), "{due:?}");
    }

    #[test]
    fn an_event_that_repeats_does_not_take_the_place_of_a_new_one() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let mut writes = 0;
        for _ in 0..40 {
            assert!(correlator.take(note("a", "Synced"), start, at(1)).is_ok());
            writes += written(&mut correlator, start).len();
        }
        assert_eq!(writes, 20);
        assert!(correlator.take(note("a", "Failed"), start, at(2)).is_ok(), "a new Event");
        assert!(matches!(&*written(&mut correlator, start), [EventWrite::New { .. }]));
    }

    #[test]
    fn events_that_are_not_written_yet_are_not_forgotten() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..SERIES - 1 {
            assert!(correlator.take(note(&n.to_string(), "Synced"), start, at(1)).is_ok());
            written(&mut correlator, start);
        }
        for n in 0..100 {
            assert!(correlator.take(note(&format!("late-{n}"), "Synced"), start, at(1)).is_ok());
        }
        assert_eq!(written(&mut correlator, start).len(), 100);
    }

    #[test]
    fn memory_is_bounded_without_losing_events() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..3 * SERIES {
            assert!(
                correlator.take(note(&n.to_string(), "Synced"), start, at(1)).is_ok(),
                "the Event of object {n} is lost"
            );
            assert!(matches!(&*written(&mut correlator, start), [EventWrite::New { .. }]), "object {n}");
            assert!(correlator.series.len() <= SERIES);
        }
        assert!(correlator.take(note("late", "Synced"), start + WINDOW, at(2)).is_ok());
        assert_eq!(correlator.series.len(), 1);
    }
}
