//! Runs the body of a test with `#[kooper::test]`.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::{ExitCode, Termination};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::runtime::{Builder, Runtime};

use super::server::{Server, Skipped};
use super::{Cluster, Running};
use kooper_program::Program;
use kooper_runtime::{BoxError, Result};

/// Runs the body of a test on a fresh cluster, with controllers that run on it
/// from before the body begins until after it ends.
#[doc(hidden)]
pub fn test<'a, F>(definitions: &[fn(&mut Program)], body: impl FnOnce(Cluster) -> F + 'a) -> ExitCode
where
    F: Future<Output: Termination> + 'a,
{
    run(&mut Builder::new_current_thread(), definitions, boxed(body))
}

/// The same on a runtime whose clock `pause` has paused.
#[doc(hidden)]
pub fn paused_test<'a, F>(
    definitions: &[fn(&mut Program)],
    pause: impl FnOnce(&mut Builder),
    body: impl FnOnce(Cluster) -> F + 'a,
) -> ExitCode
where
    F: Future<Output: Termination> + 'a,
{
    if Server::is_real() {
        eprintln!("skipped: the clock of the real server cannot be paused");
        return ExitCode::SUCCESS;
    }
    let mut builder = Builder::new_current_thread();
    pause(&mut builder);
    run(&mut builder, definitions, boxed(body))
}

/// The runtime of a test.
pub(crate) fn runtime(builder: &mut Builder) -> Runtime {
    let runtime = builder.enable_all().build();
    runtime.unwrap_or_else(|error| panic!("tokio's runtime cannot be built: {error}"))
}

/// The controllers and settings that a test lists.
pub(crate) fn program(definitions: &[fn(&mut Program)]) -> Program {
    let mut program = Program::default();
    definitions.iter().for_each(|define| define(&mut program));
    program
}

/// The body of a test, as a type that does not depend on it: what is around it is compiled once.
type Body<'a> = Box<dyn FnOnce(Cluster) -> LocalBoxFuture<'a, ExitCode> + 'a>;

fn boxed<'a, F: Future<Output: Termination> + 'a>(body: impl FnOnce(Cluster) -> F + 'a) -> Body<'a> {
    Box::new(|cluster| body(cluster).map(Termination::report).boxed_local())
}

fn run(builder: &mut Builder, definitions: &[fn(&mut Program)], body: Body<'_>) -> ExitCode {
    runtime(builder).block_on(async {
        let (cluster, running) = match start(definitions).await {
            Ok(started) => started,
            Err(Failed { error, report }) => return failed(&error.to_string(), &report),
        };
        let ended = AssertUnwindSafe(body(cluster.clone())).catch_unwind().await;
        let stopped = match running {
            Some(running) => running.stop().await,
            None => Ok(()),
        };
        let stopped = stopped.and(cluster.server.clean().await);
        match ended {
            Err(payload) => match payload.downcast::<Skipped>() {
                Ok(skipped) => {
                    eprintln!("skipped: {}", skipped.0);
                    ExitCode::SUCCESS
                }
                Err(payload) => {
                    eprintln!("{}", cluster.server.report());
                    resume_unwind(payload)
                }
            },
            Ok(code) => match stopped {
                Err(error) => failed(&error.to_string(), &cluster.server.report()),
                Ok(()) if code != ExitCode::SUCCESS => {
                    eprintln!("{}", cluster.server.report());
                    code
                }
                Ok(()) => code,
            },
        }
    })
}

/// Why the body did not begin.
struct Failed {
    error: BoxError,
    report: String,
}

async fn start(definitions: &[fn(&mut Program)]) -> Result<(Cluster, Option<Running>), Failed> {
    let early = |error: BoxError| Failed { error, report: String::new() };
    #[cfg_attr(not(feature = "webhooks"), expect(unused_mut, reason = "webhooks are taken out"))]
    let mut program = program(definitions);
    let settings = program.given_settings();
    #[cfg(feature = "webhooks")]
    let webhooks = program.take_webhooks().map_err(|error| early(error.into()))?;
    let controllers = program.into_controllers().map_err(|error| early(error.into()))?;
    let server = Server::start().await.map_err(early)?.skipping();
    let cluster = Cluster::on(server, settings);
    #[cfg(feature = "webhooks")]
    if !webhooks.is_empty() {
        let started = cluster.run_with_webhooks(controllers, webhooks).await;
        return started_on(cluster, started);
    }
    if controllers.is_empty() {
        return Ok((cluster, None));
    }
    let started = cluster.run(controllers).await;
    started_on(cluster, started)
}

fn started_on(cluster: Cluster, started: Result<Running>) -> Result<(Cluster, Option<Running>), Failed> {
    match started {
        Ok(running) => Ok((cluster, Some(running))),
        Err(error) => Err(Failed { error, report: cluster.server.report() }),
    }
}

fn failed(error: &str, report: &str) -> ExitCode {
    eprintln!("{error}\n{report}");
    ExitCode::FAILURE
}
