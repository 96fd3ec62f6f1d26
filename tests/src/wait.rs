//! Waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait. It allows for a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The shortest and the longest pause between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// Polls until the function returns a value, for at most [`TIMEOUT`]. The message of the panic has what was awaited, and
/// the string of `seen`.
pub fn until<T>(what: &str, look: impl Fn() -> Option<T>, seen: impl Fn() -> String) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let begun = Instant::now();
        if let Some(found) = look() {
            return found;
        }
        let took = begun.elapsed();
        assert!(Instant::now() < deadline, "not within {} s: {what}; instead:\n{}", TIMEOUT.as_secs(), seen());
        // A look that starts a process takes the CPU that what is awaited needs.
        thread::park_timeout((took * 3).clamp(PAUSES[0], PAUSES[1]));
    }
}

/// Polls until the condition holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    until(what, || holds().then_some(()), || "it never held".to_owned());
}
