//! Explorations: what they find, what they do not, and how they say it.

mod shop;
mod twins;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kooper::testing::{Cluster, Exploration, Oracle};
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

#[test]
fn a_mistake_is_found_by_its_oracle() {
    for twins in twins::all().iter().take(3) {
        let (make, scenario) = (twins.make, twins.scenario);
        let exploration = Exploration::of(move || Ok(vec![make(false)])).seed(1);
        let finding = exploration.run(runtime, move |cluster: Cluster| scenario.pass(cluster));
        let finding = finding.expect_err(twins.mistake);
        assert_eq!(finding.oracle(), twins.oracle, "{}", finding.summary());
    }
}

/// Where this test runs itself again.
const REPLAYED: &str = "exploration::a_finding_names_the_crash_and_the_field_and_its_file_replays_it_alone";

#[test]
fn a_finding_names_the_crash_and_the_field_and_its_file_replays_it_alone() {
    let twins = twins::all().into_iter().find(|twins| twins.mistake.starts_with("a line is appended")).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let make = twins.make;
    let exploration = Exploration::of(move || Ok(vec![make(false)])).seed(7);
    let finding = exploration.run(runtime, |cluster: Cluster| {
        runs.fetch_add(1, Ordering::Relaxed);
        twins.scenario.pass(cluster)
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
    let mut again = Command::new(std::env::current_exe().unwrap());
    let again = again.args([REPLAYED, "--exact", "--nocapture"]).env("KOOPER_REPLAY", file).output().unwrap();
    let text = String::from_utf8_lossy(&again.stdout) + String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && text.contains("1 passed"), "{text}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_scenario_that_fails_without_faults_is_the_finding() {
    let make = twins::all()[0].make;
    let exploration = Exploration::of(move || Ok(vec![make(true)]));
    let finding = exploration.run(runtime, async |_: Cluster| kooper::Result::<()>::Err("the user gave up".into()));
    let finding = finding.expect_err("it fails");
    assert_eq!(finding.summary(), "Without faults, the scenario fails: the user gave up");
    assert_eq!(finding.oracle(), Oracle::Scenario);
    assert!(finding.file().is_none());
}

#[test]
fn a_limit_is_kept_and_fields_can_be_ignored() {
    let twins = twins::all().into_iter().find(|twins| twins.mistake.starts_with("a line is appended")).unwrap();
    let make = twins.make;
    let exploration = Exploration::of(move || Ok(vec![make(false)])).ignore("data.lines").limit(5);
    let explored = exploration.run(runtime, |cluster: Cluster| twins.scenario.pass(cluster)).expect("it is ignored");
    assert_eq!(explored.histories(), 5);
    assert!(explored.possible() > 20, "{explored}");
}

#[test]
#[should_panic(expected = "an exploration needs a runtime whose clock is paused")]
fn a_clock_that_runs_is_refused() {
    let make = twins::all()[0].make;
    let running = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _ = Exploration::of(move || Ok(vec![make(true)])).run(running, async |_: Cluster| ());
}
