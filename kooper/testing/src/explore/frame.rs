//! Runs a scenario with `#[kooper::explore]` as a test.

use std::future::Future;
use std::process::ExitCode;

use tokio::runtime::Builder;

use super::{Exploration, ScenarioResult};
use crate::Cluster;
use crate::cluster::{program, runtime};
use kooper_program::Program;

/// Explores the controllers of a test with its scenario. `pause` pauses the clock of a runtime, and `arrange` sets
/// what else the attribute has.
#[doc(hidden)]
pub fn explore<F>(
    test: &str,
    definitions: &[fn(&mut Program)],
    pause: impl Fn(&mut Builder),
    arrange: impl FnOnce(Exploration) -> Exploration,
    scenario: impl Fn(Cluster) -> F,
) -> ExitCode
where
    F: Future<Output: ScenarioResult>,
{
    if Cluster::is_real() {
        eprintln!("skipped: the real server injects no faults, and its clock cannot be paused");
        return ExitCode::SUCCESS;
    }
    let settings = program(definitions).given_settings();
    let definitions = definitions.to_vec();
    let mut exploration = Exploration::of(move || program(&definitions).into_controllers());
    exploration.settings = settings;
    // The tests of a crate are named without it.
    let test = test.split_once("::").map_or(test, |(_, test)| test);
    let runtime = || {
        let mut builder = Builder::new_current_thread();
        pause(&mut builder);
        runtime(&mut builder)
    };
    match arrange(exploration.named(test)).run(runtime, scenario) {
        Ok(explored) => {
            println!("{explored}");
            ExitCode::SUCCESS
        }
        Err(finding) => {
            eprintln!("{finding}");
            ExitCode::FAILURE
        }
    }
}
