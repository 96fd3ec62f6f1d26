//! The keys for daemons, and for when a handler is called.

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions};
use crate::controller::setting::call;
use crate::controller::value::{numbers, paths};

pub(super) const DEBOUNCE: Key<Args> = Key {
    name: "debounce",
    form: "a duration",
    example: "debounce = \"2s\"",
    default: "off",
    doc: "Changes of an object, and of its children and related objects, call the handler once the object has had none for this time, or after ten times this time. The first list, resyncs, retries, `reconcile_now`, keys of `sources` and deletions do not wait.",
    read: call!(debounce, numbers::duration),
    ..Key::EQUALS
};

pub(super) const PRIORITY: Key<Args> = Key {
    name: "priority",
    form: "the path of a `fn(&K) -> i32`",
    example: "priority = urgency",
    default: "0 for all objects",
    doc: "Which objects are reconciled first while several wait for a worker: those with a higher number. Objects of the first list and resyncs count 100 less. Every tenth reconciliation is for the object that has waited the longest, so that none starves.",
    mentions: Mentions::FUNCTIONS,
    read: call!(priority_fn, paths::path),
    ..Key::EQUALS
};

pub(super) const DAEMON: Key<Args> = Key {
    name: "daemon",
    form: "the path of an async function",
    example: "daemon = watch_over",
    default: "none",
    doc: "Runs for each object until the object changes. A new generation or the deletion stops it at its next `await`. After an error or a panic it is restarted with back-off; after `Ok` it stays stopped until the next change. Arguments are those of a handler. It runs in a controller named `<name>-daemon`.",
    mentions: Mentions::FUNCTIONS,
    read: call!(daemon, paths::path),
    ..Key::EQUALS
};
