//! The rate limit of the Events of each object.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The limits of client-go.
const BURST: f64 = 25.0;
const EVERY: Duration = Duration::from_secs(300);

/// No more objects than this are remembered. The one without Events for the
/// longest time is forgotten first.
const OBJECTS: usize = 4096;

/// A bucket of tokens for each object.
#[derive(Debug, Default)]
pub(super) struct Limit {
    buckets: HashMap<String, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limit {
    /// Takes a token of an object; `false` if there is none besides this reserve.
    pub(super) fn take(&mut self, object: &str, now: Instant, reserve: f64) -> bool {
        if !self.buckets.contains_key(object) && self.buckets.len() >= OBJECTS {
            self.make_room(now);
        }
        let bucket = self.buckets.entry(object.to_owned()).or_insert(Bucket { tokens: BURST, at: now });
        bucket.tokens = bucket.filled(now);
        bucket.at = now;
        let has = bucket.tokens >= 1.0 + reserve;
        if has {
            bucket.tokens -= 1.0;
        }
        has
    }

    /// Forgets full buckets, or else the oldest one.
    fn make_room(&mut self, now: Instant) {
        self.buckets.retain(|_, bucket| bucket.filled(now) < BURST);
        if self.buckets.len() >= OBJECTS {
            let oldest = self.buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(object, _)| object.clone());
            oldest.map(|object| self.buckets.remove(&object));
        }
    }
}

impl Bucket {
    fn filled(&self, now: Instant) -> f64 {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() / EVERY.as_secs_f64();
        (self.tokens + gained).min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_25_events_at_once_and_then_one_in_five_minutes() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        assert_eq!((0..30).filter(|_| limit.take("a", start, 0.0)).count(), 25);
        assert!(limit.take("b", start, 0.0), "another object has its own");
        assert!(!limit.take("a", start + Duration::from_secs(299), 0.0));
        assert!(limit.take("a", start + Duration::from_secs(601), 0.0));
        assert!(limit.take("a", start + Duration::from_secs(601), 0.0));
        assert!(!limit.take("a", start + Duration::from_secs(601), 0.0));
    }

    #[test]
    fn memory_is_bounded() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        for n in 0..OBJECTS + 10 {
            limit.take(&n.to_string(), start + Duration::from_micros(n as u64), 0.0);
        }
        assert_eq!(limit.buckets.len(), OBJECTS);
        assert!(!limit.buckets.contains_key("0"));
        limit.take("late", start + Duration::from_secs(3600), 0.0);
        assert_eq!(limit.buckets.len(), 1);
    }
}
