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
    doc: "Runs for each object until the object changes. A new generation or the deletion stops it at its next `await`. After an error or a panic it is restarted with back-off; after `Ok` it stays stopped until the next change. Arguments are those of a handler, except `Children`. It runs in a controller named `<name>-daemon`.",
    mentions: Mentions::FUNCTIONS,
    read: call!(daemon, paths::path),
    ..Key::EQUALS
};
