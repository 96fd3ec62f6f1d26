//! The command-line program of every generated `main`.

pub(crate) mod app;
mod args;
mod chart;
mod check;
mod connect;
#[cfg(feature = "apiserver")]
mod dev;
mod diff;
mod document;
mod dry_run;
mod graph;
mod invocation;
mod lease;
mod listeners;
mod logging;
mod manifests;
mod monitoring;
mod objects;
mod panics;
mod preflight;
mod print;
mod run;
mod shards;
mod signals;
mod stdout;
mod step;
#[cfg(feature = "otel")]
mod traces;
mod uninstall;
mod verdict;
#[cfg_attr(not(feature = "webhooks"), path = "cli/no_webhooks.rs")]
mod webhooks;

use std::process::ExitCode;

use crate::{Declared, Program};
use app::App;
use args::{OwnSettings, ProgramInfo, Subcommand};
use invocation::Invocation;
use kooper_runtime::BoxError;
use kooper_runtime::internal::error::chain;

/// The exit code if the program cannot start, or its controllers ended.
const FAILED: u8 = 1;

/// The exit code where the command cannot be run as it is written.
const INVALID: u8 = 2;

/// Runs the program of a generated `main`.
///
/// `doc` has the lines of the program's doc comment. Every entry of `settings` adds
/// the type of its settings, and of `controllers` the controllers of one definition.
pub fn main(
    program: &'static str,
    version: &'static str,
    doc: &[&str],
    settings: &[fn(&mut Declared)],
    controllers: &[fn(&mut Program)],
) -> ExitCode {
    let mut app = App::new(program, version);
    app.about = doc.iter().map(|line| (*line).to_owned()).collect();
    settings.iter().for_each(|declare| declare(&mut app.declared));
    controllers.iter().fold(app, |app, define| app.defined(*define)).run()
}

/// Reads flags and environment, runs the command and returns the exit code.
fn run_command(app: &App) -> ExitCode {
    let program = app.name;
    let own = match own(&app.declared) {
        Ok(own) => own,
        Err(error) => {
            logging::print(&format!("{program} cannot start: {error}"));
            // For `diff`, 1 means that something differs.
            let is_diff = std::env::args_os().nth(1).is_some_and(|subcommand| subcommand == "diff");
            return ExitCode::from(if is_diff { INVALID } else { FAILED });
        }
    };
    let doc: Vec<&str> = app.about.iter().map(String::as_str).collect();
    let described = ProgramInfo { name: program, version: app.version, doc: &doc, own: own.as_ref() };
    let (subcommand, settings) = match args::parse(&described, std::env::args_os(), |name| std::env::var_os(name)) {
        Ok(parsed) => parsed,
        Err(error) => {
            // A closed stdout or stderr changes nothing about the exit code.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED));
        }
    };
    #[cfg(not(feature = "apiserver"))]
    if subcommand == Subcommand::Dev {
        logging::print(
            "error: `dev` needs the feature `apiserver` of kooper: run `cargo add kooper --features apiserver`, and build \
             the program again",
        );
        return ExitCode::from(INVALID);
    }
    // Commands that only print something have no spans.
    #[cfg(feature = "otel")]
    let traces = match subcommand {
        Subcommand::Run | Subcommand::Dev => traces::Traces::begin(program, app.version),
        _ => Ok(None),
    };
    #[cfg(feature = "otel")]
    let traces = match traces {
        Ok(traces) => traces,
        Err(error) => {
            logging::print(&format!("error: {}", chain(&error)));
            return ExitCode::from(error.exit_code());
        }
    };
    #[cfg(feature = "otel")]
    let spans = traces.as_ref().map(|traces| traces.layer(settings.log_level.clone()));
    #[cfg(not(feature = "otel"))]
    let spans = None;
    #[cfg(feature = "otel")]
    if app.has_subscriber && traces.is_some() {
        tracing::warn!(
            "`App::with_own_subscriber` leaves the export of spans to the program's own subscriber: let it export them, or \
             build without the feature `otel` of kooper"
        );
    }
    if !app.has_subscriber {
        logging::start(settings.log_format, settings.log_level.clone(), spans);
        if let Some(problem) = &settings.rust_log {
            tracing::warn!("RUST_LOG is ignored: {problem}");
        }
    }
    panics::print_once();
    let dry_run = settings.dry_run;
    let what = match subcommand {
        Subcommand::Run if dry_run => "dry run failed".to_owned(),
        Subcommand::Run | Subcommand::Dev => "cannot start".to_owned(),
        subcommand => format!("{} failed", subcommand.name()),
    };
    let invocation = Invocation { app, settings };
    let ended = match subcommand {
        Subcommand::Run if dry_run => dry_run::dry_run(&invocation),
        Subcommand::Run => run::run(&invocation),
        #[cfg(feature = "apiserver")]
        Subcommand::Dev => dev::dev(invocation),
        #[cfg(not(feature = "apiserver"))]
        Subcommand::Dev => Ok(ExitCode::from(INVALID)),
        Subcommand::Crd => print::crd(&invocation),
        Subcommand::Rbac => print::rbac(&invocation),
        Subcommand::Graph => graph::graph(&invocation),
        Subcommand::Manifests => manifests::manifests(&invocation),
        Subcommand::Shards => shards::shards(&invocation),
        Subcommand::Uninstall => uninstall::uninstall(invocation),
        Subcommand::Diff => diff::diff(&invocation),
        Subcommand::Check => check::check(&invocation),
        Subcommand::Dashboard => monitoring::dashboard(&invocation),
        Subcommand::Alerts => monitoring::alerts(&invocation),
    };
    let code = ended.and_then(stdout::complete).unwrap_or_else(|error| {
        let error = chain(&*error);
        // The error is printed even if logs are off.
        if tracing::enabled!(tracing::Level::ERROR) {
            tracing::error!("{program} {what}: {error}");
        } else {
            logging::print(&format!("{program} {what}: {error}"));
        }
        ExitCode::from(if subcommand == Subcommand::Diff { diff::FAILED } else { FAILED })
    });
    #[cfg(feature = "otel")]
    if let Some(traces) = traces {
        traces.end();
    }
    code
}

/// The program's own settings, if it has some.
fn own(declared: &Declared) -> Result<Option<OwnSettings>, BoxError> {
    Ok(declared.only()?.map(OwnSettings::new).transpose()?)
}
