//! The rules of tasks, which have an interval, and no object.

use proc_macro2::Span;

use crate::controller::args::Args;
use crate::controller::check::controller_name;
use crate::controller::model::Kinds;
use crate::controller::signature::Handler;
use crate::support::errors::{Errors, message};
use crate::support::place::Place;
use crate::support::types::last_word;

/// The interval of a task.
pub(super) fn interval<'a>(args: &'a Args, handler: &Handler, errors: &mut Errors) -> Option<Kinds<'a>> {
    if args.every.is_none() && !args.tries("every") {
        errors.add(
            Span::call_site(),
            message!("`every` is missing: write `#[task(every = \"10m\")]` with the interval of the task"),
        );
    }
    let name = controller_name(args, handler, None, errors)?;
    Some(Kinds::Task { every: args.every.as_ref()?, name })
}

/// Checks that no argument needs an object.
pub(super) fn check(handler: &Handler, errors: &mut Errors) {
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
