//! The command `diff`: what one pass over the objects of files would write.

mod seed;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::process::ExitCode;

use super::document::{self, DocumentError};
use super::dry_run::DryRunProgram;
use super::invocation::Invocation;
use super::logging::refuses_colours;
use super::stdout::print;
use crate::block_on::block_on;
use kooper_runtime::{BoxError, ObjectKey};
use seed::{InputObject, SeedError};

/// The exit code of an error: 1 is that of a difference, as with kubectl.
pub(super) const FAILED: u8 = 2;

/// The exit code of a difference.
const DIFFERS: u8 = 1;

/// Prints the differences between the objects before and after one pass. The pass
/// begins with the objects of the files, applied to what the cluster has.
pub(crate) fn diff(invocation: &Invocation<'_>) -> Result<ExitCode, BoxError> {
    let settings = &invocation.settings;
    let documents = document::read(&settings.files)?;
    let connected = DryRunProgram::connect(invocation)?;
    let namespace = connected.connection.client.default_namespace().to_owned();
    let seeds = documents.iter().map(|document| InputObject::new(document, &connected.controllers, &namespace));
    let seeds = seeds.collect::<Result<Vec<_>, _>>()?;
    let mut only: BTreeMap<String, BTreeSet<ObjectKey>> = BTreeMap::new();
    for seed in &seeds {
        for controller in &seed.controllers {
            only.entry(controller.clone()).or_default().insert(seed.key.clone());
        }
    }
    if only.is_empty() {
        return Err(SeedError::Unhandled.into());
    }
    let client = connected.client();
    block_on(&connected.runtime, async {
        for seed in &seeds {
            seed.apply(&client).await?;
        }
        Ok::<_, DocumentError>(())
    })?;
    let dry_run = connected.dry_run.clone();
    dry_run.begin();
    let results = connected.pass(Some(only))?;

    let allowed = || std::io::stdout().is_terminal() && !refuses_colours(|name| std::env::var_os(name));
    let colored = settings.color.unwrap_or_else(allowed);
    let differences = dry_run.differences();
    let mut text = String::new();
    for difference in &differences {
        text += &shown::shown(difference, colored)?;
    }
    // A reader that has ended changes nothing about the exit code; a diff that is incomplete is an error.
    print(&text)?;
    for (controller, note) in &results.notes {
        tracing::warn!("{controller}: {note}");
    }
    for (controller, key) in &results.unseen {
        tracing::warn!(
            "the controller `{controller}` does not handle {key}: its `labels`, `fields`, `namespaces` or `when` do not \
             select it, or it is paused"
        );
    }
    for (controller, problem) in &results.problems {
        tracing::error!("{controller}: {problem}");
    }
    // A failed call is in the log already.
    let failed = !(results.failed.is_empty() && results.problems.is_empty());
    let others = !dry_run.other_writes().named.is_empty();
    for write in &dry_run.other_writes().named {
        tracing::warn!("not shown as a difference: {write}");
    }
    Ok(ExitCode::from(match (failed, differences.is_empty() && !others) {
        (true, _) => FAILED,
        (false, false) => DIFFERS,
        (false, true) => 0,
    }))
}
