//! Fuzzing in a test: valid inputs are mutated, and none of them may make a parser panic or take long.
//!
//! | variable | sets |
//! |---|---|
//! | `KOOPER_RUNS` | how many inputs each target gets |
//! | `KOOPER_SEED` | which: the same seed makes the same inputs |
//! | `KOOPER_RUN` | the only one that is run, by the number that a failure has printed |

mod mutation;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::str::FromStr;
use std::time::{Duration, Instant};

pub use self::mutation::Mutator;

/// Number of inputs for a target, unless `KOOPER_RUNS` is set.
const RUNS: u64 = 2_000;

/// The longest that a target may take for one input.
const TIMEOUT: Duration = Duration::from_secs(20);

/// After so many runs the number is printed.
const REPORTED: u64 = 100_000;

/// Calls a target with inputs that are made of valid ones, the seeds, and of words that mean something to it.
///
/// ```
/// kooper_fuzz::fuzz("numbers", [b"17".to_vec(), b"-1e3".to_vec()], &["0x", "_"], |input| {
///     let _: Option<f64> = std::str::from_utf8(input).ok().and_then(|text| text.parse().ok());
/// });
/// ```
///
/// # Panics
///
/// When the target panics, or takes more than 20 seconds; the message has the input.
pub fn fuzz(
    name: &str,
    seeds: impl IntoIterator<Item = Vec<u8>>,
    words: &'static [&'static str],
    mut target: impl FnMut(&[u8]),
) {
    let mutator = Mutator::new(seeds, words);
    let seed = variable("KOOPER_SEED").unwrap_or(1_u64);
    let runs = match variable("KOOPER_RUN") {
        Some(only) => only..only + 1,
        None => 0..variable("KOOPER_RUNS").unwrap_or(RUNS),
    };
    let begun = Instant::now();
    for run in runs.clone() {
        // Each input depends on its number alone.
        let mut random =
            fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ run.wrapping_mul(0x2545_f491));
        let input = mutator.input(&mut random);
        if runs.end - runs.start == 1 {
            // Nothing is printed of one that overflows the stack.
            eprintln!("{name}: run {run} of seed {seed} has {} bytes: b\"{}\"", input.len(), input.escape_ascii());
        }
        let started = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let failure = match ended {
            Err(panic) => Some(panic),
            Ok(()) if started.elapsed() > TIMEOUT => Some(Box::new("it took too long") as _),
            Ok(()) => None,
        };
        if let Some(failure) = failure {
            let shown = input.escape_ascii();
            eprintln!("{name}: run {run} of seed {seed} failed, with {} bytes: b\"{shown}\"", input.len());
            resume_unwind(failure);
        }
        if (run + 1) % REPORTED == 0 {
            // It is shown although the test has not ended.
            let line = format!("{name}: {} runs in {:.0} s\n", run + 1, begun.elapsed().as_secs_f64());
            drop(std::io::stderr().write_all(line.as_bytes()));
        }
    }
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, which is not a number")))
}
