//! A limit on the concurrent work for each source.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use crate::source::Source;

/// Counts what runs for each source, up to a limit.
#[derive(Debug)]
pub struct Limits {
    most: usize,
    running: Mutex<HashMap<Source, usize>>,
}

/// One thing that runs, until it is dropped.
#[derive(Debug)]
#[must_use = "it counts until it is dropped"]
pub struct Running {
    limits: Arc<Limits>,
    source: Source,
}

impl Limits {
    /// A limit of `most` for each source.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, running: Mutex::default() })
    }

    /// Begins something; `None` if the source has too much running.
    pub fn begin(self: &Arc<Self>, source: Source) -> Option<Running> {
        let mut running = self.running.lock();
        let count = running.entry(source).or_default();
        (*count < self.most).then(|| {
            *count += 1;
            Running { limits: Arc::clone(self), source }
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.limits.running.lock();
        if let Some(count) = running.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_at_its_limit_keeps_no_other_from_beginning_and_leaves_nothing_behind() {
        let limits = Limits::new(2);
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|address| Source::of(address.parse().expect("an address")));
        let first = limits.begin(one).expect("the first");
        let second = limits.begin(one).expect("the second");
        assert!(limits.begin(one).is_none());
        drop(limits.begin(other).expect("another source"));
        drop(first);
        let third = limits.begin(one).expect("one has ended");
        drop((second, third));
        assert!(limits.running.lock().is_empty());
    }
}
