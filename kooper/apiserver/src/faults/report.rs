//! Report that is printed when a test fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::State;

/// Prints the seed and the injected faults, if the test that drops it has failed.
#[derive(Debug)]
pub(crate) struct Report(Arc<State>);

impl Report {
    pub(crate) fn of(state: &Arc<State>) -> Self {
        Self(Arc::clone(state))
    }
}

/// The seed, what was injected, and how to repeat it; `None` if no fault was ever added.
pub(super) fn text(state: &State) -> Option<String> {
    let rules = state.rules();
    if !rules.used() {
        return None;
    }
    let seed = rules.seed;
    let mut text = format!("faults: {} injected, seed {seed}\n", rules.injections().len());
    for entry in rules.injections() {
        text += &format!("  {entry}\n");
    }
    let file = file(seed);
    match std::fs::write(&file, rules.injected()) {
        Ok(()) => text += &format!("KOOPER_FAULTS={} injects exactly these\n", file.display()),
        Err(error) => text += &format!("they could not be written to {}: {error}\n", file.display()),
    }
    text += &format!("KOOPER_SEED={seed} repeats what was left to chance");
    Some(text)
}

impl Drop for Report {
    fn drop(&mut self) {
        if !std::thread::panicking() || self.0.reported.load(Ordering::Acquire) {
            return;
        }
        if let Some(text) = text(&self.0) {
            eprintln!("{text}");
        }
    }
}

/// A file for the faults of one server of this process. Several servers may have the same seed.
fn file(seed: u64) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("kooper-faults-{}-{seed}-{number}.jsonl", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::ApiServer;
    use crate::faults::Requests;

    #[tokio::test]
    async fn a_failed_test_shows_how_to_repeat_it() {
        let server = ApiServer::start().await.expect("loopback can be listened on");
        assert_eq!(text(server.fault_state()), None, "no fault was asked for");
        server.faults().set_seed(7);
        server.faults().on(Requests::all()).nth(1).reply(503);
        server.client().apiserver_version().await.expect_err("it is refused");
        let shown = text(server.fault_state()).expect("a fault was asked for");
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[..2], ["faults: 1 injected, seed 7", "  get /version, time 1: refused with 503"]);
        let file = lines[2].strip_prefix("KOOPER_FAULTS=").and_then(|rest| rest.split_once(' ')).expect("a file").0;
        assert_eq!(std::fs::read_to_string(file).expect("it was written"), server.faults().injected());
        std::fs::remove_file(file).expect("it can be removed");
        assert_eq!(lines[3], "KOOPER_SEED=7 repeats what was left to chance");
    }
}
