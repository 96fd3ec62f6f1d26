//! The output of panics.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::panic::{set_hook, take_hook};

use kooper_runtime::internal::executor::is_in_task;

/// Prints a panic of a handler once for each place in the code. The handler may panic at
/// each retry, and the log has a line about the failure with a count.
pub(super) fn print_once() {
    let print = take_hook();
    let places = Mutex::<HashSet<_>>::default();
    set_hook(Box::new(move |panic| {
        let place = panic.location().map(|place| (place.file().to_owned(), place.line(), place.column()));
        let is_new = !is_in_task() || places.lock().insert(place);
        if is_new {
            print(panic);
        }
    }));
}
