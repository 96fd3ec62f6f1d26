//! The keys for annotations by which users steer the calls for an object.

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions};
use crate::controller::setting::call;
use crate::controller::value::strings;

pub(super) const PAUSE: Key<Args> = Key {
    name: "pause",
    form: "the name of an annotation",
    example: "pause = \"example.com/pause\"",
    default: "objects cannot be paused",
    doc: "While this annotation of an object is `true`, the handler is not called for it. Its deletion is handled as usual. With declared children, the status has the condition `Paused` meanwhile.",
    mentions: Mentions::KINDS,
    read: call!(pause, strings::qualified),
    ..Key::EQUALS
};

pub(super) const RECONCILE_NOW: Key<Args> = Key {
    name: "reconcile_now",
    form: "the name of an annotation",
    example: "reconcile_now = \"example.com/reconcile-now\"",
    default: "none",
    doc: "Each change of this annotation calls the handler for the object at once, whatever `changed` says, and resets its back-off.",
    mentions: Mentions::KINDS,
    read: call!(reconcile_now, strings::qualified),
    ..Key::EQUALS
};
