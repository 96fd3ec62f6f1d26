//! The keys for daemons, and for when a handler is called.

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions};
use crate::controller::setting::call;
use crate::controller::value::paths;

pub(super) const DAEMON: Key<Args> = Key {
    name: "daemon",
    form: "the path of an async function",
    example: "daemon = watch_over",
    default: "none",
    doc: "Runs for each object until the object changes: a new generation, and the deletion, drop it at its next `await`. An error or a panic begins it again with back-off, and `Ok` finishes it until the next change. Arguments are those of a handler. It runs in a controller named `<name>-daemon`.",
    mentions: Mentions::FUNCTIONS,
    read: call!(daemon, paths::path),
    ..Key::EQUALS
};
