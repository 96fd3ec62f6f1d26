//! Pseudo-random numbers from a seed.

use std::time::Duration;

use crate::backoff::fraction;

pub(super) struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: (fraction(seed) * 1e15) as u64, thrown: 0 }
    }

    /// A number in `0.0..1.0`.
    pub(super) fn throw(&mut self) -> f64 {
        self.thrown += 1;
        fraction(self.seed.wrapping_add(self.thrown.wrapping_mul(0x9E37)))
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        (self.throw() * most as f64) as u64
    }

    pub(super) fn within(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.throw())
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.throw() < share
    }
}
