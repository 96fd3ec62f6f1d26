//! Points in time as the queue keeps them.

use std::num::NonZeroI64;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

/// The point from which they are counted.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An `Instant` in half of its memory, also if it is optional: the queue keeps several for each key.
///
/// It is exact for three centuries around the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CompactInstant(NonZeroI64);

impl From<Instant> for CompactInstant {
    fn from(at: Instant) -> Self {
        let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX - 1);
        // A paused clock may be behind the one that was read first.
        let offset = match at.checked_duration_since(*START) {
            Some(after) => nanos(after) + 1,
            None => -nanos(START.saturating_duration_since(at)),
        };
        Self(NonZeroI64::new(offset).unwrap_or(NonZeroI64::MIN))
    }
}

impl From<CompactInstant> for Instant {
    fn from(CompactInstant(offset): CompactInstant) -> Self {
        let nanos = Duration::from_nanos(offset.unsigned_abs().get());
        if offset.is_positive() { *START + nanos - Duration::from_nanos(1) } else { *START - nanos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_instant_is_the_same_in_half_of_the_memory() {
        assert_eq!(size_of::<Option<CompactInstant>>() * 2, size_of::<Option<Instant>>());
        let start = *START;
        let (nanosecond, century) = (Duration::from_nanos(1), Duration::from_secs(100 * 365 * 86_400));
        let minute = Duration::from_secs(60);
        let ordered = [start - minute, start - nanosecond, start, start + nanosecond, start + minute, start + century];
        assert_eq!(ordered.map(|at| Instant::from(CompactInstant::from(at))), ordered);
        assert!(ordered.map(CompactInstant::from).is_sorted());
    }
}
