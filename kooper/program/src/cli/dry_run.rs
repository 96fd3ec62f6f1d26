//! A dry run: one pass over all objects, in which nothing is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;

use kube::Client;
use prometheus::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::FAILED;
use super::connect::Connection;
use super::invocation::Invocation;
use super::objects::counted;
use super::preflight::connected;
use super::run::{GRACE, operator};
use super::signals::Signals;
use super::stdout::print_line;
use super::step::{printable, say};
use crate::block_on::block_on;
use crate::dry_run::{Difference, DryRun, DryRunPass, PassResults};
use crate::metrics::Prometheus;
use kooper_access::Controller;
use kooper_access::internal::three_way_merge::changed_fields;
use kooper_runtime::internal::client::ClientStack;
use kooper_runtime::{BoxError, Health, ObjectKey};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[error("{signal}: the dry run was interrupted")]
struct Interrupted {
    signal: String,
}

/// Handles each object once and prints what would be written. Exits with 1 if a call
/// failed, or something could not be tried.
pub(crate) fn dry_run(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let (program, version) = (invocation.app.name, invocation.app.version);
    let connected = DryRunProgram::connect(invocation)?;
    say("dry run", format_args!("{program} {version} on {}: nothing is changed", connected.connection.server));
    let dry_run = connected.dry_run.clone();
    let results = connected.pass(None)?;
    for (controller, note) in &results.notes {
        say("note", format_args!("{controller}: {note}"));
    }
    let differences = dry_run.differences();
    let mut counts = BTreeMap::new();
    for difference in &differences {
        let (step, what) = described(difference);
        *counts.entry(step).or_insert(0) += 1;
        say(step, what);
    }
    let others = dry_run.other_writes();
    for write in &others.named {
        print_line(&printable(write));
    }
    for (controller, problem) in &results.problems {
        say("problem", format_args!("{controller}: {problem}"));
    }
    for (controller, key, why) in &results.failed {
        say("failed", format_args!("{controller}: {key}: {why}"));
    }
    let count = |step: &str| counts.get(step).copied().unwrap_or(0);
    say(
        "done",
        format_args!(
            "{} handled, {} failed; {} would be created, {} changed, {} deleted, and {} recorded",
            counted(results.handled, "object"),
            results.failed.len(),
            count("create"),
            count("change"),
            count("delete"),
            counted(others.events(), "Event"),
        ),
    );
    let complete = results.failed.is_empty() && results.problems.is_empty();
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The step and its object.
fn described(difference: &Difference) -> (&'static str, String) {
    let id = match difference.slot() {
        Some(slot) => format!("{} (slot {slot})", difference.id),
        None => difference.id.to_string(),
    };
    match (&difference.before, &difference.after) {
        (_, None) => ("delete", id),
        (None, Some(_)) => ("create", id),
        _ if difference.blind => {
            ("change", format!("{id}: its previous state is unknown, as there is no permission to read it"))
        }
        (Some(before), Some(after)) => {
            let marked = |state: &serde_json::Value| !state["metadata"]["deletionTimestamp"].is_null();
            if marked(after) && !marked(before) {
                return ("delete", format!("{id}, which waits for its finalizers or its containers"));
            }
            ("change", format!("{id}: {}", changed_fields(before, after).join(", ")))
        }
    }
}

/// The side effects of a dry run of a controller, apart from requests that change nothing.
fn side_effects(controller: &Controller) -> impl Iterator<Item = String> {
    let name = controller.name();
    let effects = [
        (
            controller.has_init(),
            format!(
                "dry run: `init` of the controller `{name}` is called: only its requests to the API server are dry runs"
            ),
        ),
        (
            !controller.plan().unruled_clients().is_empty(),
            format!(
                "dry run: the controller `{name}` takes `Client`: its writes are dry runs, and requests without dry \
                 run, such as `exec`, fail"
            ),
        ),
        (
            controller.has_own_retriever(),
            format!("dry run: the controller `{name}` has a custom retriever: its objects are listed once"),
        ),
        (
            controller.has_sources(),
            format!("dry run: the keys from `sources` of the controller `{name}` are not handled"),
        ),
    ];
    effects.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text)
}

/// A program that is about to make a dry run.
pub(super) struct DryRunProgram<'a> {
    invocation: &'a Invocation<'a>,
    pub(super) controllers: Vec<Controller>,
    pub(super) runtime: Runtime,
    metrics: Prometheus,
    pub(super) connection: Connection,
    pub(super) dry_run: Arc<DryRun>,
}

impl<'a> DryRunProgram<'a> {
    /// Connects, and checks that the API server responds.
    pub(super) fn connect(invocation: &'a Invocation<'a>) -> Result<Self, BoxError> {
        let mut controllers = invocation.controllers()?;
        // A pass ends, and a daemon does not.
        controllers.retain(|controller| !controller.is_daemon());
        for controller in &mut controllers {
            // No Lease is acquired, and only JSON can be changed.
            controller.set_leader_election(None)?;
            controller.remove_shards();
            controller.set_json_only(true);
            for effect in side_effects(controller) {
                tracing::warn!("{effect}");
            }
        }
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let metrics = Prometheus::new(&Registry::new())?;
        let connection = block_on(&runtime, connected(invocation, &metrics))?;
        let namespace = connection.client.default_namespace();
        controllers.iter_mut().for_each(|one| one.set_own_namespace(namespace));
        let dry_run = Arc::default();
        Ok(Self { invocation, controllers, runtime, metrics, connection, dry_run })
    }

    /// The client of the dry run.
    pub(super) fn client(&self) -> Client {
        let _context = self.runtime.enter();
        ClientStack::new(self.connection.client.clone()).with([self.dry_run.layer()]).client()
    }

    /// Handles each object once, or each of these.
    pub(super) fn pass(self, only: Option<BTreeMap<String, BTreeSet<ObjectKey>>>) -> Result<PassResults, BoxError> {
        let Self { invocation, controllers, runtime, metrics, connection, dry_run } = self;
        let pass = Arc::new(DryRunPass::new(dry_run, only));
        let operator = pass.attach(operator(invocation, controllers, Some(&connection), metrics, Health::default()));
        let operator = {
            let _context = runtime.enter();
            operator.build()?
        };
        // A handler that blocks the program's threads does not delay the signals.
        let main = Builder::new_current_thread().enable_all().build()?;
        let ended = block_on(&main, async {
            let mut signals = Signals::listen()?;
            let stop = CancellationToken::new();
            let running = runtime.spawn(operator.run(stop.clone()));
            let interrupted = tokio::select! {
                () = pass.over() => None,
                signal = signals.next() => Some(signal),
            };
            stop.cancel();
            tokio::select! {
                // The operator's own result is that of the pass.
                ended = timeout(invocation.settings.drain_timeout().saturating_add(GRACE), running) => drop(ended),
                _ = signals.next() => {}
            }
            match interrupted {
                Some(signal) => Err(BoxError::from(Interrupted { signal: signal.to_string() })),
                None => Ok(()),
            }
        });
        runtime.shutdown_background();
        ended.map(|()| pass.results())
    }
}
