//! The keys for daemons, and for when, how often and for how long a handler is called.

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions};
use crate::controller::setting::call;
use crate::controller::value::{numbers, paths};

pub(super) const RESYNC: Key<Args> = Key {
    name: "resync",
    form: "a duration or `off`",
    example: "resync = \"3m\"",
    default: "`\"3m\"`",
    doc: "Every object is reconciled again at this interval, after pending changes. `off`: only the first list and changes are reconciled.",
    mentions: Mentions::Constants,
    read: call!(resync, numbers::duration_or_off),
    ..Key::EQUALS
};

pub(super) const WORKERS: Key<Args> = Key {
    name: "workers",
    form: "a number of at least 1",
    example: "workers = 4",
    default: "`3`",
    doc: "How many handlers run in parallel. A controller never runs two handlers for the same object at once.",
    mentions: Mentions::Constants,
    read: call!(workers, numbers::workers),
    ..Key::EQUALS
};

pub(super) const RETRIES: Key<Args> = Key {
    name: "retries",
    form: "a number or `unlimited`",
    example: "retries = 5",
    default: "`unlimited`",
    doc: "How many times a failed call is retried before its key waits for the next change or resync.",
    mentions: Mentions::Constants,
    read: call!(retries, numbers::number_or_unlimited),
    ..Key::EQUALS
};

pub(super) const BACKOFF: Key<Args> = Key {
    name: "backoff",
    form: "the initial and the maximum delay",
    example: "backoff = (\"5ms\", \"1000s\")",
    default: "`(\"5ms\", \"1000s\")`",
    doc: "The exponential back-off of a failing key: its initial and maximum delay.",
    mentions: Mentions::Constants,
    read: call!(backoff, numbers::two_durations),
    ..Key::EQUALS
};

pub(super) const RETRY_RATE: Key<Args> = Key {
    name: "retry_rate",
    form: "retries per second, or those and a burst, each at least 1",
    example: "retry_rate = (10, 100)",
    default: "`(10, 100)`",
    doc: "Retries per second and their burst, for all keys of the controller together.",
    mentions: Mentions::Constants,
    read: call!(retry_rate, numbers::rate),
    ..Key::EQUALS
};

pub(super) const TIMEOUT: Key<Args> = Key {
    name: "timeout",
    form: "a duration or `off`",
    example: "timeout = \"30s\"",
    default: "`\"5m\"`",
    doc: "The maximum time for one call of the handler. Exceeding it is an error.",
    mentions: Mentions::Constants,
    read: call!(timeout, numbers::duration_or_off),
    ..Key::EQUALS
};

pub(super) const WHEN: Key<Args> = Key {
    name: "when",
    form: "the path of a `fn(&K) -> bool`, or a closure",
    example: "when = is_ours",
    default: "none",
    doc: "A filter, called with each new version of an object, and again before each call of the handler.",
    mentions: Mentions::Functions,
    read: |args, value| {
        args.settings.push(paths::called_with_object(value, "when", "when_fn")?);
        Ok(())
    },
    ..Key::EQUALS
};

pub(super) const DEBOUNCE: Key<Args> = Key {
    name: "debounce",
    form: "a duration",
    example: "debounce = \"2s\"",
    default: "off",
    doc: "Changes of an object, and of its children and related objects, call the handler once the object has had none for this time, or after ten times this time. The first list, resyncs, retries, `reconcile_now`, keys of `sources` and deletions do not wait.",
    mentions: Mentions::Constants,
    read: call!(debounce, numbers::duration_or_constant),
    ..Key::EQUALS
};

pub(super) const PRIORITY: Key<Args> = Key {
    name: "priority",
    form: "the path of a `fn(&K) -> i32`, or a closure",
    example: "priority = urgency",
    default: "0 for all objects",
    doc: "Which objects are reconciled first while several wait for a worker: those with a higher number. Objects of the first list and resyncs count 100 less. Every tenth reconciliation is for the object that would be the first without priorities, so that none starves.",
    mentions: Mentions::Functions,
    read: |args, value| {
        args.settings.push(paths::called_with_object(value, "priority", "priority_fn")?);
        Ok(())
    },
    ..Key::EQUALS
};

pub(super) const DAEMON: Key<Args> = Key {
    name: "daemon",
    form: "the path of an async function",
    example: "daemon = watch_over",
    default: "none",
    doc: "Runs for each object until the object changes. A new generation or the deletion stops it at its next `await`. After an error or a panic it is restarted with back-off; after `Ok` it stays stopped until the next change. Arguments are those of a handler, except `Children`. With `children`, `Ready` is `False` after a failure. It runs in a controller named `<name>-daemon`.",
    mentions: Mentions::Functions,
    read: call!(daemon, paths::path),
    ..Key::EQUALS
};
