//! Explorations: what they find, what they do not, and how they say it.

mod chance;
mod mutants;
mod shards;
mod shop;
mod verdicts;

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use kooper::controller::Task;
use kooper::testing::{Cluster, Exploration, Explored, Finding, Oracle};
use tokio::runtime::Runtime;

use crate::fixture::run_tests;
use mutants::Mutant;
use shop::{Scenario, shop};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Number of histories that are run for each fixed twin; `KOOPER_HISTORIES` sets another number.
const HISTORIES: usize = 8;

fn explore(mutant: &Mutant, fixed: bool) -> Result<Explored, Finding> {
    let (make, scenario) = (mutant.make, mutant.scenario);
    let mut exploration = Exploration::of(move || Ok(vec![make(fixed)])).seed(1);
    if fixed {
        // Those that are wrong are explored until they are found.
        exploration = exploration.limit(HISTORIES);
    }
    if scenario == Scenario::Changes {
        exploration = exploration.state(shop("corner", 1, Some("red"))).state(shop("corner", 3, None));
    }
    exploration.run(runtime, move |cluster: Cluster| scenario.pass(cluster))
}

/// Explores a pair and returns the errors: the mistake is not found, or by another oracle, or the
/// fixed twin is blamed.
fn wrong(mutant: &Mutant) -> Vec<String> {
    let mistake = mutant.mistake;
    let found = match explore(mutant, false) {
        Ok(explored) => Some(format!("{mistake}: not found, {explored}")),
        Err(finding) => {
            drop(finding.file().map(std::fs::remove_file));
            println!("{mistake}: {}", finding.summary());
            let (by, summary) = (finding.oracle(), finding.summary());
            (by != mutant.oracle).then(|| format!("{mistake}: found by {by:?}: {summary}"))
        }
    };
    let blamed = match explore(mutant, true) {
        Ok(explored) => {
            println!("{mistake}: the fixed one: {explored}");
            None
        }
        Err(finding) => Some(format!("{mistake}: the fixed one: {finding}")),
    };
    found.into_iter().chain(blamed).collect()
}

#[test]
fn each_of_24_mistakes_is_found_by_its_oracle_and_no_fixed_twin_is_blamed() {
    let all = mutants::all();
    assert_eq!(all.len(), 24);
    assert_each_is_found(&all);
}

#[test]
fn each_mistake_in_what_is_another_one_in_each_run_is_found_and_no_fixed_twin_is_blamed() {
    assert_each_is_found(&chance::all());
}

fn assert_each_is_found(all: &[Mutant]) {
    let (next, all_wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wrong = wrong(mutant);
                    all_wrong.lock().extend(wrong);
                }
            });
        }
    });
    let wrong = all_wrong.into_inner();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Where this test runs itself again.
const REPLAYED: &str = "cluster::exploration::a_finding_names_the_crash_and_the_field_and_its_file_replays_it_alone";

#[test]
fn a_finding_names_the_crash_and_the_field_and_its_file_replays_it_alone() {
    let mutant = mutants::all().into_iter().find(|mutant| mutant.mistake.starts_with("a line is appended")).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let make = mutant.make;
    let exploration = Exploration::of(move || Ok(vec![make(false)])).seed(7);
    let finding = exploration.run(runtime, |cluster: Cluster| {
        runs.fetch_add(1, Ordering::Relaxed);
        mutant.scenario.pass(cluster)
    });
    let finding = finding.expect_err("it has a mistake");
    assert_eq!(
        finding.summary(),
        "With a crash after the 1st `apply configmaps default/corner-log` was stored and before its answer arrived, \
         `data.lines` of `ConfigMap default/corner-log` is `\"opened\\nopened\\n\"` instead of `\"opened\\n\"`"
    );
    let (shown, file) = (finding.to_string(), finding.file().expect("a file was written"));
    assert!(shown.contains("\nseed 7\n") && shown.contains("the last requests:\n"), "{shown}");
    let command = format!("KOOPER_REPLAY={} cargo test {REPLAYED} repeats only this history", file.display());
    assert!(shown.contains(&command), "{shown}");
    if std::env::var_os("KOOPER_REPLAY").is_some() {
        // Two runs without faults, and this history.
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        return;
    }
    let (passed, text) = run_tests(&[REPLAYED], &["--nocapture"], &[("KOOPER_REPLAY", file)]);
    assert!(passed, "{text}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_scenario_that_fails_without_faults_is_the_finding() {
    let make = mutants::all()[0].make;
    let exploration = Exploration::of(move || Ok(vec![make(true)]));
    let finding = exploration.run(runtime, async |_: Cluster| kooper::Result::<()>::Err("the user gave up".into()));
    let finding = finding.expect_err("it fails");
    assert_eq!(finding.summary(), "Without faults, the scenario fails: the user gave up");
    assert_eq!(finding.oracle(), Oracle::Scenario);
    assert!(finding.file().is_none());
}

#[test]
fn a_scenario_that_never_ends_is_the_finding() {
    // It has no watches, whose bookmarks of 10 days would take most of the test's time.
    let idle = || Task::builder("idle", Duration::from_secs(20 * 86_400)).handler(async || {}).build();
    let exploration = Exploration::of(move || Ok(vec![idle()?]));
    let finding = exploration.run(runtime, async |_: Cluster| std::future::pending::<()>().await);
    let summary = finding.expect_err("it waits").summary();
    assert!(summary.starts_with("Without faults, the scenario fails: it has not ended within 10 days"), "{summary}");
}

#[test]
fn a_limit_is_kept_and_fields_can_be_ignored() {
    let mutant = mutants::all().into_iter().find(|mutant| mutant.mistake.starts_with("a line is appended")).unwrap();
    let make = mutant.make;
    let exploration = Exploration::of(move || Ok(vec![make(false)])).ignore("data.lines").limit(5);
    let explored = exploration.run(runtime, |cluster: Cluster| mutant.scenario.pass(cluster)).expect("it is ignored");
    assert_eq!(explored.histories(), 5);
    assert!(explored.possible() > 20, "{explored}");
}

#[test]
#[should_panic(expected = "an exploration needs a runtime whose clock is paused")]
fn a_clock_that_runs_is_refused() {
    let make = mutants::all()[0].make;
    let running = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _ = Exploration::of(move || Ok(vec![make(true)])).run(running, async |_: Cluster| ());
}
