//! The keys of `#[task]`. Those that controllers have, too, are read in the same way.

use crate::controller::args::Args;
use crate::controller::key::{Key, Mentions, Table};
use crate::controller::setting::{call, keep};
use crate::controller::value::{numbers, strings, words};

/// The table of the attribute.
pub(crate) const TASK: Table<Args> = Table {
    noun: "key",
    example: "every = \"10m\"",
    keys: &[
        Key {
            name: "every",
            form: "a duration",
            example: "every = \"10m\"",
            default: "required without `cron`",
            doc: "The time from the start of one run to the start of the next, or up to a tenth less. Runs never overlap: a run that falls due during another one is skipped.",
            mentions: Mentions::Constants,
            read: keep!(every, numbers::duration_or_constant),
            ..Key::EQUALS
        },
        Key {
            name: "cron",
            form: "a schedule",
            example: "cron = \"0 3 * * *\"",
            default: "none",
            doc: "The times of the runs in UTC, in the format of Kubernetes' CronJobs: minute, hour, day of the month, month, day of the week. Missed runs are skipped, and runs never overlap.",
            mentions: Mentions::Constants,
            read: keep!(cron, strings::schedule),
            ..Key::EQUALS
        },
        shared(
            "name",
            "the function's name in kebab case",
            "The task's name in metrics, logs, the Lease and the field manager, at most 63 characters.",
        ),
        shared(
            "backoff",
            "`\"1s\"` and the interval; with `cron`, ten minutes",
            "The exponential back-off after a run that failed: its initial and maximum delay.",
        ),
        shared("timeout", "`\"5m\"`", "The maximum time for one run. Exceeding it is an error."),
        shared(
            "leader_election",
            "off: each replica runs the task",
            "Run the task in one replica only. Its settings are those of controllers.",
        ),
        Key {
            name: "everywhere",
            example: "everywhere",
            default: "off: without `leader_election` or `shard_of`, the program gets one replica only",
            doc: "The task may run in each replica at the same time, so it does not limit the number of replicas. Not together with `leader_election` or `shard_of`.",
            read: call!(everywhere, words::flag),
            ..Key::FLAG
        },
        Key {
            name: "shard_of",
            form: "the name of a controller",
            example: "shard_of = \"shops\"",
            default: "none",
            doc: "Run the task in the replica that owns one of the shards of this controller, which is in the same program and has `shards`. The hash of the task's name decides which shard. Needs `main = false`.",
            read: call!(shard_of, strings::label),
            ..Key::EQUALS
        },
        shared(
            "namespace",
            "all",
            "The namespace in which the task works: its readers have the objects of this one only, and its permissions are granted there. `own` is that of the operator, as for controllers. `--namespace` on the command line overrides it.",
        ),
        Key {
            form: "a list of names of namespaces",
            ..shared(
                "namespaces",
                "all",
                "The namespaces in which the task works. It runs once the caches of all of them are synced. `--namespace` on the command line overrides them.",
            )
        },
        shared(
            "reads",
            "all objects",
            "Selects the objects that each `Reader` of a kind reads, unless it names a `Subset`. Only these are fetched.",
        ),
        shared(
            "init",
            "none",
            "Builds the shared state, once per process for each distinct function; with `leader_election` or `shard_of`, once for each task. The task takes `State<S>`.",
        ),
        shared("settings", "none", "The type of the program's own settings, which the task takes as `Settings<T>`."),
        shared("layers", "none", "Middleware around the function, the outermost first."),
        shared("rbac", "none", "RBAC rules for the requests of a `Client`. `rbac()`: none."),
        shared(
            "main",
            "a `main` is generated",
            "Generate no `main`, for programs with several controllers and tasks: `kooper::main!(a, b)` generates one for all of them.",
        ),
        shared(
            "type_name",
            "the function's name",
            "The name of the generated type, if another type or module has the function's name.",
        ),
        shared("crate", "`::kooper`", "The path of kooper, if another crate re-exports it."),
    ],
    others: &[
        ("every", "interval period resync"),
        ("cron", "schedule at"),
        ("leader_election", "leader"),
        // A task has no objects to share: it runs in a shard of a controller.
        ("shard_of", "shards shard"),
        ("init", "state"),
        ("rbac", "access"),
    ],
};

/// A key of controllers, with its default and its description for tasks.
const fn shared(name: &str, default: &'static str, doc: &'static str) -> Key<Args> {
    Key { default, doc, ..Key::of(super::KEYS, name) }
}
