//! The keys of the attribute, each declared once.
//!
//! The parser, the check for duplicates, the texts of the errors and the reference page
//! all read this table. A new key is a line here, a field in [`Args`], and its setter in
//! `emit`.

pub(crate) mod others;

use crate::controller::args::Args;
use crate::controller::value::Value;

/// A key of the attribute.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// How it is written, each way one.
    pub(crate) shapes: &'static [Shape],
    /// What it takes, as it completes "`key` takes …".
    pub(crate) form: &'static str,
    /// One that is right, for errors and the reference page.
    pub(crate) example: &'static str,
    /// What holds without it.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page, which a test compares"))]
    pub(crate) default: &'static str,
    /// What it means, in a line.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page, which a test compares"))]
    pub(crate) doc: &'static str,
    /// Reads the value into its field.
    pub(crate) read: fn(&mut Args, &Value<'_>) -> syn::Result<()>,
}

/// A way to write a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `key`
    Flag,
    /// `key = value`
    Equals,
    /// `key(…)`
    Parentheses,
}

/// The declaration of a key.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

macro_rules! field {
    ($field:ident, $read:ident) => {
        |args, value| {
            args.$field = Some(value.$read()?);
            Ok(())
        }
    };
}

const EQUALS: &[Shape] = &[Shape::Equals];

/// All keys, in the order of the reference page.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "resource",
        shapes: &[Shape::Equals, Shape::Parentheses],
        form: "the type of a kind, or a list of them",
        example: "resource = Pod",
        default: "required",
        doc: "The kind to retrieve. A list makes one independent controller for each kind, named `<name>-<kind>`, which share a generic handler. `resource(Pod, optional)`: a cluster without the kind does not make the process unready.",
        read: |args, value| {
            let (resource, optional) = value.resource()?;
            args.resource = Some(resource);
            args.optional = optional;
            Ok(())
        },
    },
    Key {
        name: "name",
        shapes: EQUALS,
        form: "a DNS label",
        example: "name = \"echo-pod\"",
        default: "the fn's name in kebab case",
        doc: "The controller's name in metrics, logs, lease and field manager, at most 63 characters.",
        read: field!(name, label),
    },
    Key {
        name: "resync",
        shapes: EQUALS,
        form: "a duration or `off`",
        example: "resync = \"3m\"",
        default: "`\"3m\"`",
        doc: "Every object goes to the handler again each interval, behind real events. `off`: the first list once, then events only.",
        read: field!(resync, duration_or_off),
    },
    Key {
        name: "workers",
        shapes: EQUALS,
        form: "a number from 1 up",
        example: "workers = 4",
        default: "`3`",
        doc: "Handlers that run in parallel. One object is never with two of them.",
        read: field!(workers, number_from_one),
    },
    Key {
        name: "retries",
        shapes: EQUALS,
        form: "a number or `unlimited`",
        example: "retries = 5",
        default: "`unlimited`",
        doc: "Calls after a failed first one, before the key waits for its next event or resync.",
        read: field!(retries, number_or_unlimited),
    },
    Key {
        name: "backoff",
        shapes: EQUALS,
        form: "the first and the longest delay",
        example: "backoff = (\"5ms\", \"1000s\")",
        default: "`(\"5ms\", \"1000s\")`",
        doc: "The exponential delay before a failed key is tried again, first and longest.",
        read: field!(backoff, two_durations),
    },
    Key {
        name: "retry_rate",
        shapes: EQUALS,
        form: "retries a second from 1 up, or those and a burst",
        example: "retry_rate = (10, 100)",
        default: "`(10, 100)`",
        doc: "Retries a second and their burst, for all keys of the controller together.",
        read: field!(retry_rate, rate),
    },
    Key {
        name: "timeout",
        shapes: EQUALS,
        form: "a duration or `off`",
        example: "timeout = \"30s\"",
        default: "`\"5m\"`",
        doc: "The longest time for one call of the handler. Exceeding it is an error.",
        read: field!(timeout, duration_or_off),
    },
    Key {
        name: "namespace",
        shapes: EQUALS,
        form: "the name of a namespace",
        example: "namespace = \"shop\"",
        default: "all",
        doc: "Where to look. `--namespace` on the command line overrides it.",
        read: field!(namespace, label),
    },
    Key {
        name: "namespaces",
        shapes: EQUALS,
        form: "a list of names of namespaces",
        example: "namespaces = [\"shop\", \"bakery\"]",
        default: "all",
        doc: "Where to look, when that is several namespaces.",
        read: field!(namespaces, labels),
    },
    Key {
        name: "labels",
        shapes: EQUALS,
        form: "a label selector",
        example: "labels = \"app=web, tier in (front, edge)\"",
        default: "none",
        doc: "Only objects with such labels, selected by the server. Its syntax is checked at compile time.",
        read: field!(labels, label_selector),
    },
    Key {
        name: "fields",
        shapes: EQUALS,
        form: "a field selector",
        example: "fields = \"status.phase=Running\"",
        default: "none",
        doc: "Only objects with such fields, selected by the server, which knows a few for each kind.",
        read: field!(fields, field_selector),
    },
    Key {
        name: "metadata_only",
        shapes: &[Shape::Flag],
        form: "no value",
        example: "metadata_only",
        default: "off",
        doc: "Retrieve metadata only. The handler takes `Arc<PartialObjectMeta<K>>`.",
        read: field!(metadata_only, flag),
    },
    Key {
        name: "changed",
        shapes: EQUALS,
        form: "a list of parts of an object",
        example: "changed = [generation, labels]",
        default: "`[any]`",
        doc: "Which changes wake the handler: `generation`, `labels`, `annotations`, `finalizers`, `status` or `any`. The first sight of an object, its deletion mark and the resync always do.",
        read: field!(changed, changes),
    },
    Key {
        name: "when",
        shapes: EQUALS,
        form: "the path of a `fn(&K) -> bool`",
        example: "when = is_ours",
        default: "none",
        doc: "A filter before the queue, asked of each new version.",
        read: field!(when, path),
    },
    Key {
        name: "owns",
        shapes: EQUALS,
        form: "a list of kinds",
        example: "owns = [Deployment, Service]",
        default: "none",
        doc: "Kinds of children: one whose controller owner is an object of ours wakes that owner.",
        read: field!(owns, types),
    },
    Key {
        name: "watches",
        shapes: EQUALS,
        form: "a list of kinds, each with the path of a fn",
        example: "watches = [ConfigMap => users_of, Secret => holders_of]",
        default: "none",
        doc: "Other objects that wake ours: `fn(&T) -> impl IntoIterator<Item = ObjectKey>` names them, of the old version and of the new one. A second argument `&Reader<K>` looks into the cache.",
        read: field!(watches, maps),
    },
    Key {
        name: "sources",
        shapes: EQUALS,
        form: "a list of paths of fns that return a stream of keys",
        example: "sources = [orders]",
        default: "none",
        doc: "Keys from outside: each `fn() -> impl Stream<Item = ObjectKey>` is called when the controller runs. A key wakes the handler if its object exists.",
        read: field!(sources, paths),
    },
    Key {
        name: "cleanup",
        shapes: EQUALS,
        form: "the path of an async fn",
        example: "cleanup = tear_down",
        default: "none",
        doc: "What is done before an object vanishes, guaranteed by the `finalizer`. Arguments and outcome are as a handler's; the object goes when it returns without an error and without asking to come back.",
        read: field!(cleanup, path),
    },
    Key {
        name: "finalizer",
        shapes: EQUALS,
        form: "a name with a domain of yours",
        example: "finalizer = \"shop.example.com/cleanup\"",
        default: "required with `cleanup`",
        doc: "The name of the mark that keeps an object until `cleanup` is done. It is written out, so that renaming the fn orphans nothing.",
        read: field!(finalizer, finalizer),
    },
    Key {
        name: "on_leave",
        shapes: EQUALS,
        form: "`cleanup`, or is left out",
        example: "on_leave = cleanup",
        default: "the object keeps its finalizer",
        doc: "An object that leaves `labels` or `fields` alive is cleaned up as well.",
        read: field!(on_leave, only_cleanup),
    },
    Key {
        name: "former_names",
        shapes: EQUALS,
        form: "a list of names that the controller had",
        example: "former_names = [\"old-name\"]",
        default: "none",
        doc: "Names that the controller had before: the fields that it applied under them are taken over, and a Lease of theirs that is held is respected. For a list of kinds, write each name with its kind: `old-name-pod`.",
        read: field!(former_names, labels),
    },
    Key {
        name: "former_finalizers",
        shapes: EQUALS,
        form: "a list of finalizers that the controller had",
        example: "former_finalizers = [\"shop.example.com/old\"]",
        default: "none",
        doc: "Finalizers that the controller had before: each is replaced by `finalizer`, or removed after `cleanup`.",
        read: field!(former_finalizers, finalizers),
    },
    Key {
        name: "former_program",
        shapes: EQUALS,
        form: "the name that the program had",
        example: "former_program = \"old-shop\"",
        default: "none",
        doc: "The program's name before its binary was renamed: the fields that it applied are taken over, and a Lease of it that is held is respected.",
        read: field!(former_program, label),
    },
    Key {
        name: "deleted",
        shapes: EQUALS,
        form: "the path of an async fn",
        example: "deleted = forget",
        default: "none",
        doc: "Told of objects that vanished, as far as the process sees it: one try each. Arguments are as a handler's, and `Gone`.",
        read: field!(deleted, path),
    },
    Key {
        name: "leader_election",
        shapes: &[Shape::Flag, Shape::Parentheses],
        form: "no value, or settings in parentheses such as `(lease_duration = \"30s\")`",
        example: "leader_election",
        default: "off",
        doc: "Handlers run in one replica only. Settings: `lease`, `namespace`, `lease_duration = \"15s\"`, `renew_deadline = \"10s\"`, `retry_period = \"2s\"`.",
        read: field!(leader_election, election),
    },
    Key {
        name: "install_crd",
        shapes: &[Shape::Flag],
        form: "no value",
        example: "install_crd",
        default: "off",
        doc: "Apply the kind's CRD at the start, and wait until the server has it.",
        read: field!(install_crd, flag),
    },
    Key {
        name: "init",
        shapes: EQUALS,
        form: "the path of an `async fn(…) -> Result<S, E>`",
        example: "init = connect",
        default: "none",
        doc: "Builds the shared state, once in a process for each distinct fn; with `leader_election` once for each controller. It may take `Client` and capabilities; handlers take `State<S>`.",
        read: field!(init, path),
    },
    Key {
        name: "retriever",
        shapes: EQUALS,
        form: "the path of a `fn(Client) -> impl Retriever<K>`",
        example: "retriever = from_queue",
        default: "the API",
        doc: "A retriever of your own in place of the API's.",
        read: field!(retriever, path),
    },
    Key {
        name: "layers",
        shapes: EQUALS,
        form: "a list of paths of fns that return a `tower::Layer`",
        example: "layers = [audited, throttled]",
        default: "none",
        doc: "Middleware around the handler, the first one outermost.",
        read: field!(layers, paths),
    },
    Key {
        name: "access",
        shapes: &[Shape::Parentheses],
        form: "rules in parentheses",
        example: "access(\"apps/deployments: get, patch\", \"pods/log: get\")",
        default: "none",
        doc: "What a `Client` or a retriever of your own may do, as RBAC rules. `access()` says nothing at all.",
        read: field!(access, rules),
    },
    Key {
        name: "main",
        shapes: EQUALS,
        form: "`false` or is left out",
        example: "main = false",
        default: "a `main` is generated",
        doc: "Without a `main`, for several controllers, modules and libraries: `kooper::main!(a, b)` makes one of them all.",
        read: field!(main, only_false),
    },
    Key {
        name: "type_name",
        shapes: EQUALS,
        form: "a name",
        example: "type_name = EchoController",
        default: "the fn's name",
        doc: "The name of the generated type, where a type or module of the fn's name is in the way.",
        read: field!(type_name, ident),
    },
    Key {
        name: "crate",
        shapes: EQUALS,
        form: "a path",
        example: "crate = my_platform::kooper",
        default: "`::kooper`",
        doc: "The path of kooper, where another crate re-exports it.",
        read: field!(krate, path),
    },
];

#[cfg(test)]
mod tests {
    use super::others::OTHERS;
    use super::*;

    #[test]
    fn every_example_is_read() {
        for key in KEYS {
            let tokens = key.example.parse().expect(key.name);
            let mut errors = crate::support::errors::Errors::new();
            let args = Args::parse(tokens, &mut errors);
            assert!(errors.check().is_ok(), "{}", key.example);
            assert!(args.has(key.name));
        }
    }

    #[test]
    fn names_are_said_once() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS.iter().skip(i + 1).all(|other| other.name != key.name), "{}", key.name);
            assert!(OTHERS.iter().all(|(other, _)| *other != key.name), "{}", key.name);
        }
        assert!(OTHERS.iter().all(|(_, ours)| find(ours).is_some()));
    }
}
