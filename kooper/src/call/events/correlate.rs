//! Equal Events become one with a count.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::Note;
use super::limit::Limit;

/// An Event that repeats within this time is counted, and not written anew.
const WINDOW: Duration = Duration::from_secs(360);

/// More different Events than this are not remembered: those that were quiet
/// for longest are forgotten, and would be new ones.
const SERIES: usize = 4096;

/// Decides which Events are written.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: HashMap<String, Series>,
    /// Those with something to write, in their order.
    unwritten: Vec<String>,
    /// When what is over was last forgotten.
    swept: Option<Instant>,
    limit: Limit,
}

#[derive(Debug)]
struct Series {
    note: Note,
    /// The Event as it was written first.
    name: Option<String>,
    count: i32,
    first: Timestamp,
    last: Timestamp,
    heard: Instant,
}

/// Something to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Due {
    /// A new Event.
    New { key: String, note: Note, first: Timestamp },
    /// A repetition of an Event that was written.
    More { key: String, note: Note, name: String, count: i32, last: Timestamp },
}

impl Correlator {
    /// Takes a note; `false` if it exceeds the object's limit.
    pub(super) fn take(&mut self, note: Note, now: Instant, at: Timestamp) -> bool {
        let key = key(&note);
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= WINDOW) {
            self.series.retain(|_, series| now.saturating_duration_since(series.heard) < WINDOW);
            self.swept = Some(now);
        }
        let known = self.series.get_mut(&key).filter(|series| now.saturating_duration_since(series.heard) < WINDOW);
        if let Some(series) = known {
            series.count = series.count.saturating_add(1);
            (series.last, series.heard) = (at, now);
        } else {
            if !self.limit.take(&object(&note.regarding), now) {
                return false;
            }
            if self.series.len() >= SERIES {
                self.make_room();
            }
            self.series.insert(key.clone(), Series { note, name: None, count: 1, first: at, last: at, heard: now });
        }
        if !self.unwritten.contains(&key) {
            self.unwritten.push(key);
        }
        true
    }

    /// Forgets the quarter of the written Events that was quiet for longest.
    fn make_room(&mut self) {
        let written = self.series.iter().filter(|(key, _)| !self.unwritten.contains(*key));
        let mut written: Vec<_> = written.map(|(key, series)| (series.heard, key.clone())).collect();
        written.sort_unstable();
        for (_, key) in written.into_iter().take(SERIES / 4) {
            self.series.remove(&key);
        }
    }

    /// The Events to write now. One without a token waits until it repeats.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        for key in std::mem::take(&mut self.unwritten) {
            let Some(series) = self.series.get(&key) else { continue };
            let (note, last, count) = (series.note.clone(), series.last, series.count);
            match series.name.clone() {
                None => due.push(Due::New { key, note, first: series.first }),
                Some(name) if self.limit.take(&object(&note.regarding), now) => {
                    due.push(Due::More { key, note, name, count, last });
                }
                Some(_) => {}
            }
        }
        due
    }

    /// An Event was written under this name. What was heard before that is
    /// still to be told.
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

/// What two notes have in common that are the same Event.
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
        let message = "as before".to_owned();
        Note { regarding, related: None, warning: false, reason: reason.to_owned(), action: "Do".to_owned(), message }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn written(correlator: &mut Correlator, now: Instant) -> Vec<Due> {
        let due = correlator.due(now);
        for one in &due {
            if let Due::New { key, .. } = one {
                correlator.written(key, "event".to_owned());
            }
        }
        due
    }

    #[test]
    fn what_says_the_same_is_one_event_with_a_count() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(correlator.take(note("a", "Synced"), start, at(1)));
        assert!(matches!(&*written(&mut correlator, start), [Due::New { .. }]));
        assert!(
            correlator.take(note("a", "Synced"), start, at(2)) && correlator.take(note("a", "Synced"), start, at(3))
        );
        assert!(correlator.take(note("a", "Scaled"), start, at(4)));
        let due = written(&mut correlator, start);
        assert!(matches!(&due[0], Due::More { count: 3, last, .. } if *last == at(3)), "{due:?}");
        assert!(matches!(&due[1], Due::New { note, .. } if note.reason == "Scaled"), "{due:?}");
        assert_eq!(correlator.due(start), []);
    }

    #[test]
    fn what_is_heard_before_the_first_is_written_is_told_after_it() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(
            correlator.take(note("a", "Synced"), start, at(1)) && correlator.take(note("a", "Synced"), start, at(2))
        );
        assert!(matches!(&*written(&mut correlator, start), [Due::New { .. }]));
        assert!(matches!(&*written(&mut correlator, start), [Due::More { count: 2, .. }]));
    }

    #[test]
    fn after_some_minutes_it_is_a_new_event() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        assert!(correlator.take(note("a", "Synced"), start, at(1)));
        written(&mut correlator, start);
        assert!(correlator.take(note("a", "Synced"), start + WINDOW, at(361)));
        assert!(matches!(&*correlator.due(start + WINDOW), [Due::New { first, .. }] if *first == at(361)));
    }

    #[test]
    fn one_object_that_tells_too_much_is_cut_short_and_its_neighbour_is_not() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let taken = (0..40).filter(|n| correlator.take(note("a", &format!("Reason{n}")), start, at(1))).count();
        assert_eq!(taken, 25);
        assert!(correlator.take(note("b", "Synced"), start, at(1)));
        assert_eq!(written(&mut correlator, start).len(), 26);
        assert!(correlator.take(note("a", "Reason0"), start, at(2)), "what was written goes on");
        assert_eq!(correlator.due(start), [], "though it is not written at once");
        let later = start + Duration::from_secs(301);
        assert!(correlator.take(note("a", "Reason0"), later, at(302)));
        assert!(matches!(&*correlator.due(later), [Due::More { count: 3, .. }]));
    }

    #[test]
    fn what_is_not_written_yet_is_not_forgotten() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..SERIES - 1 {
            assert!(correlator.take(note(&n.to_string(), "Synced"), start, at(1)));
            written(&mut correlator, start);
        }
        for n in 0..100 {
            assert!(correlator.take(note(&format!("late-{n}"), "Synced"), start, at(1)));
        }
        assert_eq!(written(&mut correlator, start).len(), 100);
    }

    #[test]
    fn memory_is_bounded_and_no_object_is_lost_for_it() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..3 * SERIES {
            assert!(correlator.take(note(&n.to_string(), "Synced"), start, at(1)), "the Event of object {n} is lost");
            assert!(matches!(&*written(&mut correlator, start), [Due::New { .. }]), "object {n}");
            assert!(correlator.series.len() <= SERIES);
        }
        assert!(correlator.take(note("late", "Synced"), start + WINDOW, at(2)));
        assert_eq!(correlator.series.len(), 1);
    }
}
