//! Pseudo-random numbers from a seed.

use std::time::Duration;

use crate::hash::{finalise, fraction};

pub(super) struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: finalise(seed.wrapping_add(1)), thrown: 0 }
    }

    /// A number in `0.0..1.0`.
    pub(super) fn throw(&mut self) -> f64 {
        self.thrown += 1;
        fraction(self.seed.wrapping_add(self.thrown))
    }

    pub(super) fn below(&mut self, most: usize) -> usize {
        (self.throw() * most as f64) as usize
    }

    pub(super) fn within(&mut self, span: Duration) -> Duration {
        span.mul_f64(self.throw())
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.throw() < share
    }
}
