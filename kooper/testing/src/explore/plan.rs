//! Which histories are run: those of a file, or some that a seed chooses.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::trial::Trial;

/// The environment variable that names the file of a history.
pub(super) const REPLAY: &str = "KOOPER_REPLAY";

/// The environment variables of the seed, of the most histories and of the number of storms.
const SEED: &str = "KOOPER_SEED";
const HISTORIES: &str = "KOOPER_HISTORIES";
const STORMS: &str = "KOOPER_STORMS";

/// The history that a file has.
#[derive(Deserialize, Serialize)]
struct Replay {
    /// The test that it belongs to; empty if its name is unknown.
    test: String,
    trial: Trial,
}

impl Replay {
    /// Returns whether the history may be one of this test. A name is unknown if all tests share a thread.
    fn is_of(&self, test: &str) -> bool {
        self.test == test || self.test.is_empty() || test.is_empty()
    }
}

/// The history of the file that the environment names, if it is one of this test.
pub(super) fn replayed(test: &str) -> Option<Trial> {
    let file = PathBuf::from(std::env::var_os(REPLAY)?);
    let replay = read(&file).unwrap_or_else(|problem| panic!("{REPLAY}={}: {problem}", file.display()));
    replay.is_of(test).then_some(replay.trial)
}

fn read(file: &Path) -> Result<Replay, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("it has no history of an exploration: {error}"))
}

/// Writes a history to a file of its own, and returns the file.
pub(super) fn write(test: &str, trial: &Trial) -> std::io::Result<PathBuf> {
    let replay = Replay { test: test.to_owned(), trial: trial.clone() };
    let text = serde_json::to_string(&replay)?;
    let number = RandomState::new().hash_one(&text);
    let file = std::env::temp_dir().join(format!("kooper-history-{}-{number:x}.json", std::process::id()));
    fs::write(&file, text)?;
    Ok(file)
}

/// The seed of the environment.
pub(super) fn seed() -> Option<u64> {
    number(SEED)
}

/// A seed that no run had before, probably.
pub(super) fn new_seed() -> u64 {
    // Hashers of the standard library begin with random keys.
    RandomState::new().hash_one(0) % 1_000_000
}

/// The most histories, if the environment sets them.
pub(super) fn histories() -> Option<usize> {
    number(HISTORIES)
}

/// The number of storms, if the environment sets it.
pub(super) fn storms() -> Option<u64> {
    number(STORMS)
}

fn number<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: it is not a number from 0 to 2^64 - 1")))
}

/// Keeps so many, chosen by the seed, in their order.
pub(super) fn choose(trials: &mut Vec<Trial>, limit: usize, seed: u64) {
    if trials.len() <= limit {
        return;
    }
    let mut numbers: Vec<_> = (0..trials.len()).collect();
    numbers.sort_by_key(|number| mixed(seed ^ mixed(u64::try_from(*number).unwrap_or(u64::MAX))));
    let mut kept = vec![false; trials.len()];
    numbers.into_iter().take(limit).for_each(|number| kept[number] = true);
    let mut kept = kept.into_iter();
    trials.retain(|_| kept.next().unwrap_or_default());
}

/// Spreads the bits: the finalizer of SplitMix64.
fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Replay, Trial, choose};

    #[test]
    fn a_history_is_replayed_by_its_test_and_where_a_name_is_unknown() {
        let of = |test: &str| Replay { test: test.to_owned(), trial: Trial::Undisturbed };
        assert!(of("tests::a").is_of("tests::a") && !of("tests::a").is_of("tests::b"));
        assert!(of("").is_of("tests::a") && of("tests::a").is_of(""));
    }

    #[test]
    fn a_seed_chooses_the_same_histories_again() {
        let all = || (0..100).map(|seed| Trial::Storm { seed, again: None }).collect::<Vec<_>>();
        let chosen = |limit, seed| {
            let mut trials = all();
            choose(&mut trials, limit, seed);
            trials
        };
        assert_eq!(chosen(100, 1), all());
        assert_eq!(chosen(10, 1).len(), 10);
        assert_eq!(chosen(10, 1), chosen(10, 1));
        assert_ne!(chosen(10, 1), chosen(10, 2));
    }
}
