//! The rules of tasks, which have an interval or a schedule, and no object.

use proc_macro2::Span;

use crate::controller::args::Args;
use crate::controller::check::name_of;
use crate::controller::model::{Kinds, Times};
use crate::controller::signature::Handler;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::types::last_word;

/// The times of a task.
pub(super) fn times<'a>(args: &'a Args, handler: &Handler, errors: &mut Errors) -> Option<Kinds<'a>> {
    if !args.tries("every") && !args.tries("cron") {
        errors.add(
            Span::call_site(),
            message!(
                "`every` or `cron` is missing: write `#[task(every = \"10m\")]` with an interval, or `#[task(cron = \"0 3 * * *\")]` \
                 with a schedule"
            ),
        );
    }
    if let Some(cron) = args.key("cron").filter(|_| args.has("every")) {
        errors.add(cron, message!("`every` and `cron` exclude each other: remove one of the two"));
    }
    let name = name_of("controller", args, handler, None, errors)?;
    let times = args.every.as_ref().map(Times::Every).or_else(|| args.cron.as_ref().map(Times::Cron));
    Some(Kinds::Task { times: times?, name })
}

/// Checks that one key decides which replicas run the task, and that no argument needs an object.
pub(super) fn check(args: &Args, handler: &Handler, errors: &mut Errors) {
    if let Some(key) = args.key("everywhere").filter(|_| args.has("leader_election")) {
        let text = message!(
            "`everywhere` and `leader_election` exclude each other: write `everywhere` to run the task in each replica, or \
             `leader_election` to run it in one"
        );
        errors.add(key, text);
    }
    if let Some(key) = args.key("shard_of") {
        for other in ["everywhere", "leader_election"].into_iter().filter(|other| args.has(other)) {
            let text = message!(
                "`shard_of` and `{other}` exclude each other: write `shard_of` to run the task in the replica that owns its \
                 shard, or `{other}` to run it in {}",
                if other == "everywhere" { "each replica" } else { "the leader" },
            );
            errors.add(key, text);
        }
        if !args.has("main") {
            let text = message!(
                "`shard_of` names a controller, which must be in the same program: write `main = false` here and on the \
                 controller, and `kooper::main!(controller, {})`",
                handler.ident
            );
            errors.add(key, text);
        }
    }
    if let Some(key) = args.key("namespaces").filter(|_| args.calls("namespace_selector")) {
        let text = message!(
            "a task has no objects that could leave with their namespace: write the names of namespaces, or read them with a \
             `Reader<Namespace>`"
        );
        errors.add(key, text);
    }
    for argument in &handler.arguments {
        let text = match last_word(argument).as_str() {
            "Arc" => message!("a task has no object: take a `Reader<T>` to read objects"),
            "Recorder" => message!("a task has no object to record Events on: remove `Recorder`"),
            "OwnedApplier" | "Children" => {
                message!("a task has no object that could own children: take an `Applier<T>`")
            }
            _ => continue,
        };
        errors.add(Place::of(argument), text);
    }
}
