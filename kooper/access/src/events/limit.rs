//! The rate limit of the Events of each object.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The limits of client-go.
const BURST: u32 = 25;
const EVERY: Duration = Duration::from_secs(300);

/// No more objects than this are remembered. The one whose bucket is full first is forgotten
/// first.
const OBJECTS: usize = 4096;

/// A bucket of tokens for each object.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// When each bucket is full again.
    buckets: HashMap<Arc<str>, Instant>,
    /// The buckets by that time, so that none has to be searched for.
    by_time: BTreeSet<(Instant, Arc<str>)>,
}

impl Limit {
    /// Takes a token of an object; `false` if there is none besides this reserve.
    pub(super) fn take(&mut self, object: &str, now: Instant, reserve: u32) -> bool {
        let known = self.buckets.get_key_value(object).map(|(object, full)| (*full, object.clone()));
        let full = known.as_ref().map_or(now, |(full, _)| now.max(*full));
        if full + EVERY * (1 + reserve) > now + EVERY * BURST {
            return false;
        }
        let object = match known {
            Some(known) => {
                self.by_time.remove(&known);
                known.1
            }
            None => {
                self.make_room(now);
                object.into()
            }
        };
        self.by_time.insert((full + EVERY, Arc::clone(&object)));
        self.buckets.insert(object, full + EVERY);
        true
    }

    /// Forgets full buckets, and the next one that will be full if there are too many.
    fn make_room(&mut self, now: Instant) {
        while self.by_time.first().is_some_and(|(full, _)| *full <= now || self.buckets.len() >= OBJECTS)
            && let Some((_, object)) = self.by_time.pop_first()
        {
            self.buckets.remove(&object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_25_events_at_once_and_then_one_in_five_minutes() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        assert_eq!((0..30).filter(|_| limit.take("a", start, 0)).count(), 25);
        assert!(limit.take("b", start, 0), "another object has its own");
        assert!(!limit.take("a", start + Duration::from_secs(299), 0));
        assert!(limit.take("a", start + Duration::from_secs(601), 0));
        assert!(limit.take("a", start + Duration::from_secs(601), 0));
        assert!(!limit.take("a", start + Duration::from_secs(601), 0));
    }

    #[test]
    fn an_object_that_exceeds_its_limit_is_not_forgotten_because_of_others() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        assert_eq!((0..30).filter(|_| limit.take("a", start, 0)).count(), 25);
        for n in 0..OBJECTS + 10 {
            limit.take(&n.to_string(), start + Duration::from_micros(n as u64), 0);
        }
        assert!(!limit.take("a", start + Duration::from_secs(1), 0));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        for n in 0..OBJECTS + 10 {
            limit.take(&n.to_string(), start + Duration::from_micros(n as u64), 0);
        }
        assert_eq!(limit.buckets.len(), OBJECTS);
        assert!(!limit.buckets.contains_key("0"));
        assert_eq!(limit.by_time.len(), OBJECTS);
        limit.take("late", start + Duration::from_secs(3600), 0);
        assert_eq!(limit.buckets.len(), 1);
    }
}
