//! Waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

/// The longest that anything may take here: a loaded machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until there is something.
///
/// # Panics
///
/// If there is nothing after [`PATIENCE`]: with what was waited for, and what `seen` has to say.
pub fn until<T>(what: &str, look: impl Fn() -> Option<T>, seen: impl Fn() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {} s: {what}; instead:\n{}", PATIENCE.as_secs(), seen());
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// Looks again and again until it holds.
///
/// # Panics
///
/// As [`until`].
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    until(what, || holds().then_some(()), || "it never held".to_owned());
}
