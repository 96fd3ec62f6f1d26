//! Pseudo-random numbers from a seed.

use std::time::Duration;

use crate::backoff::fraction;

pub(super) struct SimRng {
    seed: u64,
    drawn: u64,
}

impl SimRng {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: (fraction(seed) * 1e15) as u64, drawn: 0 }
    }

    /// A number in `0.0..1.0`.
    pub(super) fn next_f64(&mut self) -> f64 {
        self.drawn += 1;
        fraction(self.seed.wrapping_add(self.drawn.wrapping_mul(0x9E37)))
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        (self.next_f64() * most as f64) as u64
    }

    pub(super) fn within(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.next_f64())
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.next_f64() < share
    }
}
