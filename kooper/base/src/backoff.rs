//! Retry delays: exponential back-off, and a token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// Exponential back-off: the delay doubles with each failure in a row, up to a
/// maximum.
///
/// ```
/// use std::time::Duration;
///
/// use kooper::backoff::Backoff;
///
/// let backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(60) };
/// assert_eq!(backoff.delay(1), Duration::from_secs(1));
/// assert_eq!(backoff.delay(4), Duration::from_secs(8));
/// assert_eq!(backoff.delay(40), Duration::from_secs(60));
/// ```
#[doc(alias = "rate limiter")]
#[doc(alias = "exponential backoff")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub initial: Duration,
    /// The maximum delay.
    pub max: Duration,
}

impl Backoff {
    /// The delay after the `failures`-th failure in a row, counted from 1.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.checked_mul(factor).map_or(self.max, |delay| delay.min(self.max))
    }
}

impl Default for Backoff {
    /// From 5 ms to 1000 s, as in client-go's work queues.
    fn default() -> Self {
        Self { initial: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

/// A token bucket: `rate` tokens per second, and at most `burst` of them saved.
#[doc(hidden)]
#[derive(Debug)]
pub struct TokenBucket {
    interval: Duration,
    burst: u32,
    /// When the bucket is full again; each token taken delays it.
    full_at: Instant,
}

impl TokenBucket {
    #[must_use]
    pub fn new(rate: u32, burst: u32, now: Instant) -> Self {
        Self::every(Duration::from_secs(1) / rate.max(1), burst, now)
    }

    /// A bucket that gets one token in each interval.
    #[must_use]
    pub fn every(interval: Duration, burst: u32, now: Instant) -> Self {
        Self { interval, burst: burst.max(1), full_at: now }
    }

    /// Takes a token, or returns when the next one is available.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let next = self.next(now);
        if next > now {
            return Err(next);
        }
        self.full_at = self.full_at.max(now) + self.interval;
        Ok(())
    }

    /// When the next token is available.
    #[must_use]
    pub fn next(&self, now: Instant) -> Instant {
        let full_at = self.full_at.max(now) + self.interval;
        full_at.checked_sub(self.interval * self.burst).map_or(now, |at| at.max(now))
    }

    /// Returns `true` if no token is missing.
    #[must_use]
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

/// A pseudo-random number in `0.0..1.0` that depends on the seed only: it spreads
/// timers without the state of a generator.
#[doc(hidden)]
#[must_use]
pub fn fraction(seed: u64) -> f64 {
    // SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014).
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff { initial: Duration::from_millis(5), max: Duration::from_millis(30) };
        let delays: Vec<_> = (1..=5).map(|n| backoff.delay(n).as_millis()).collect();
        assert_eq!(delays, [5, 10, 20, 30, 30]);
        assert_eq!(backoff.delay(u32::MAX), backoff.max);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_allows_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(10, 3, Instant::now());
        let mut taken = 0;
        while bucket.take(Instant::now()).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 3);
        let start = Instant::now();
        for _ in 0..20 {
            while let Err(at) = bucket.take(Instant::now()) {
                tokio::time::sleep_until(at).await;
            }
        }
        let took = start.elapsed().as_millis();
        assert!((1990..=2040).contains(&took), "20 tokens at 10 a second took {took} ms");
    }
}
