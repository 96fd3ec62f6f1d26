//! The keys of `#[controller]`.
//!
//! A new key is a row here, a case in `mistakes`, a controller in `ui-tests/pass`, and a section in
//! `attribute.md`; `KOOPER_BLESS=1 cargo test -p kooper-macros` writes the reference page.

mod others;

use crate::controller::args::Args;
use crate::controller::key::{FLAG, Key, Mentions, PARENTHESES, Shape, Table, call, calls, keep};
use crate::controller::setting::{Setting, Stage};
use crate::support::spanned::Spanned;

/// The table of the attribute.
pub(crate) const CONTROLLER: Table<Args> =
    Table { noun: "key", example: "resource = Pod", keys: KEYS, others: others::OTHERS };

/// All keys, in the order of the reference page.
const KEYS: &[Key<Args>] = &[
    Key {
        name: "resource",
        shapes: &[Shape::Equals, Shape::Parentheses],
        form: "the type of a kind, or a list of them",
        example: "resource = Pod",
        default: "required",
        doc: "The kind to retrieve. A list makes one independent controller for each kind, named `<name>-<kind>`, which share a generic handler. `resource(Pod, optional)`: a cluster without the kind does not make the process unready.",
        mentions: Mentions::KINDS,
        read: |args, value| {
            let (resource, optional) = value.resource()?;
            args.resource = Some(resource);
            args.settings.extend(optional.map(|optional| Setting::new("optional", optional)));
            Ok(())
        },
    },
    Key {
        name: "name",
        form: "a DNS label",
        example: "name = \"echo-pod\"",
        default: "the fn's name in kebab case",
        doc: "The controller's name in metrics, logs, lease and field manager, at most 63 characters.",
        read: keep!(name, label),
        ..Key::EQUALS
    },
    Key {
        name: "resync",
        form: "a duration or `off`",
        example: "resync = \"3m\"",
        default: "`\"3m\"`",
        doc: "Every object goes to the handler again each interval, behind real events. `off`: the first list once, then events only.",
        read: call!(resync, duration_or_off),
        ..Key::EQUALS
    },
    Key {
        name: "workers",
        form: "a number from 1 up",
        example: "workers = 4",
        default: "`3`",
        doc: "Handlers that run in parallel. One object is never with two of them.",
        read: call!(workers, number_from_one),
        ..Key::EQUALS
    },
    Key {
        name: "retries",
        form: "a number or `unlimited`",
        example: "retries = 5",
        default: "`unlimited`",
        doc: "Calls after a failed first one, before the key waits for its next event or resync.",
        read: call!(retries, number_or_unlimited),
        ..Key::EQUALS
    },
    Key {
        name: "backoff",
        form: "the first and the longest delay",
        example: "backoff = (\"5ms\", \"1000s\")",
        default: "`(\"5ms\", \"1000s\")`",
        doc: "The exponential delay before a failed key is tried again, first and longest.",
        read: call!(backoff, two_durations),
        ..Key::EQUALS
    },
    Key {
        name: "retry_rate",
        form: "retries a second from 1 up, or those and a burst",
        example: "retry_rate = (10, 100)",
        default: "`(10, 100)`",
        doc: "Retries a second and their burst, for all keys of the controller together.",
        read: call!(retry_rate, rate),
        ..Key::EQUALS
    },
    Key {
        name: "timeout",
        form: "a duration or `off`",
        example: "timeout = \"30s\"",
        default: "`\"5m\"`",
        doc: "The longest time for one call of the handler. Exceeding it is an error.",
        read: call!(timeout, duration_or_off),
        ..Key::EQUALS
    },
    Key {
        name: "namespace",
        form: "the name of a namespace",
        example: "namespace = \"shop\"",
        default: "all",
        doc: "Where to look. `--namespace` on the command line overrides it.",
        read: |args, value| {
            let namespace = value.label()?.map(|namespace| vec![namespace]);
            args.settings.push(Setting::new("namespaces", namespace));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "namespaces",
        form: "a list of names of namespaces",
        example: "namespaces = [\"shop\", \"bakery\"]",
        default: "all",
        doc: "Where to look, when that is several namespaces.",
        read: call!(namespaces, labels),
        ..Key::EQUALS
    },
    Key {
        name: "labels",
        form: "a label selector",
        example: "labels = \"app=web, tier in (front, edge)\"",
        default: "none",
        doc: "Only objects with such labels, selected by the server. Its syntax is checked at compile time.",
        read: call!(labels, label_selector),
        ..Key::EQUALS
    },
    Key {
        name: "fields",
        form: "a field selector",
        example: "fields = \"status.phase=Running\"",
        default: "none",
        doc: "Only objects with such fields, selected by the server, which knows a few for each kind.",
        read: call!(fields, field_selector),
        ..Key::EQUALS
    },
    Key {
        name: "metadata_only",
        shapes: FLAG,
        form: "no value",
        example: "metadata_only",
        default: "off",
        doc: "Retrieve metadata only. The handler takes `Arc<PartialObjectMeta<K>>`.",
        read: call!(metadata_only, flag, Stage::Object),
        ..Key::EQUALS
    },
    Key {
        name: "changed",
        form: "a list of parts of an object",
        example: "changed = [generation, labels]",
        default: "`[any]`",
        doc: "Which changes wake the handler: `generation`, `labels`, `annotations`, `finalizers`, `status` or `any`. The first sight of an object, its deletion mark and the resync always do.",
        read: |args, value| {
            let changed = value.changes()?;
            args.status = changed.value.iter().find(|change| change.word == "status").map(|change| change.word.span());
            args.settings.push(Setting::new("changed", changed));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "when",
        form: "the path of a `fn(&K) -> bool`",
        example: "when = is_ours",
        default: "none",
        doc: "A filter before the queue, asked of each new version.",
        mentions: Mentions::FUNCTIONS,
        read: call!(when_fn, path),
        ..Key::EQUALS
    },
    Key {
        name: "owns",
        form: "a list of kinds",
        example: "owns = [Deployment, Service]",
        default: "none",
        doc: "Kinds of children: one whose controller owner is an object of ours wakes that owner.",
        mentions: Mentions::KINDS,
        read: calls!(owns, kinds),
        ..Key::EQUALS
    },
    Key {
        name: "watches",
        form: "a list of kinds, each with the path of a fn",
        example: "watches = [ConfigMap => users_of, Secret => holders_of]",
        default: "none",
        doc: "Other objects that wake ours: `fn(&T) -> impl IntoIterator<Item = ObjectKey>` names them, of the old version and of the new one. A second argument `&Reader<K>` looks into the cache.",
        mentions: Mentions::BOTH,
        read: calls!(watches, maps),
        ..Key::EQUALS
    },
    Key {
        name: "sources",
        form: "a list of paths of fns that return a stream of keys",
        example: "sources = [orders]",
        default: "none",
        doc: "Keys from outside: each `fn() -> impl Stream<Item = ObjectKey>` is called when the controller runs. A key wakes the handler if its object exists.",
        mentions: Mentions::FUNCTIONS,
        read: calls!(source_from, functions),
        ..Key::EQUALS
    },
    Key {
        name: "cleanup",
        form: "the path of an async fn",
        example: "cleanup = tear_down",
        default: "none",
        doc: "What is done before an object vanishes, guaranteed by the `finalizer`. Arguments and outcome are as a handler's; the object goes when it returns without an error and without asking to come back.",
        mentions: Mentions::FUNCTIONS,
        read: keep!(cleanup, path),
        ..Key::EQUALS
    },
    Key {
        name: "finalizer",
        form: "a name with a domain of yours",
        example: "finalizer = \"shop.example.com/cleanup\"",
        default: "required with `cleanup`",
        doc: "The name of the mark that keeps an object until `cleanup` is done. It is written out, so that renaming the fn orphans nothing.",
        read: keep!(finalizer, finalizer),
        ..Key::EQUALS
    },
    Key {
        name: "on_leave",
        form: "`cleanup`, or is left out",
        example: "on_leave = cleanup",
        default: "the object keeps its finalizer",
        doc: "An object that leaves `labels` or `fields` alive is cleaned up as well.",
        read: keep!(on_leave, only_cleanup),
        ..Key::EQUALS
    },
    Key {
        name: "former_names",
        form: "a list of names that the controller had",
        example: "former_names = [\"old-name\"]",
        default: "none",
        doc: "Names that the controller had before: the fields that it applied under them are taken over, and a Lease of theirs that is held is respected. For a list of kinds, write each name with its kind: `old-name-pod`.",
        read: |args, value| {
            let names = value.labels()?;
            args.former_names.clone_from(&names.value);
            args.settings.push(Setting::new("former_names", names));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "former_finalizers",
        form: "a list of finalizers that the controller had",
        example: "former_finalizers = [\"shop.example.com/old\"]",
        default: "none",
        doc: "Finalizers that the controller had before: each is replaced by `finalizer`, or removed after `cleanup`.",
        read: keep!(former_finalizers, finalizers),
        ..Key::EQUALS
    },
    Key {
        name: "former_program",
        form: "the name that the program had",
        example: "former_program = \"old-shop\"",
        default: "none",
        doc: "The program's name before its binary was renamed: the fields that it applied are taken over, and a Lease of it that is held is respected.",
        read: call!(former_program, label),
        ..Key::EQUALS
    },
    Key {
        name: "deleted",
        form: "the path of an async fn",
        example: "deleted = forget",
        default: "none",
        doc: "Told of objects that vanished, as far as the process sees it: one try each. Arguments are as a handler's, and `Gone`.",
        mentions: Mentions::FUNCTIONS,
        read: call!(deleted, path),
        ..Key::EQUALS
    },
    Key {
        name: "leader_election",
        shapes: &[Shape::Flag, Shape::Parentheses],
        form: "no value, or settings in parentheses such as `(lease_duration = \"30s\")`",
        example: "leader_election",
        default: "off",
        doc: "Handlers run in one replica only. Settings: `lease`, `namespace`, `lease_duration = \"15s\"`, `renew_deadline = \"10s\"`, `retry_period = \"2s\"`.",
        read: |args, value| {
            let election = value.election()?;
            args.lease = election.value.lease;
            args.settings.push(Setting::new("leader_election", election));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "install_crd",
        shapes: FLAG,
        form: "no value",
        example: "install_crd",
        default: "off",
        doc: "Apply the kind's CRD at the start, and wait until the server has it.",
        read: call!(install_crd, flag),
        ..Key::EQUALS
    },
    Key {
        name: "init",
        form: "the path of an `async fn(…) -> Result<S, E>`",
        example: "init = connect",
        default: "none",
        doc: "Builds the shared state, once in a process for each distinct fn; with `leader_election` once for each controller. It may take `Client` and capabilities; handlers take `State<S>`.",
        mentions: Mentions::FUNCTIONS,
        read: call!(init, path, Stage::State),
        ..Key::EQUALS
    },
    Key {
        name: "retriever",
        form: "the path of a `fn(Client) -> impl Retriever<K>`",
        example: "retriever = from_queue",
        default: "the API",
        doc: "A retriever of your own in place of the API's.",
        mentions: Mentions::FUNCTIONS,
        read: |args, value| {
            // All of it where the value stands, which is what the message about its type is for.
            let path = value.path()?;
            args.settings.push(Setting::new("retriever_from", Spanned { key: path.place.start, ..path }));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "layers",
        form: "a list of paths of fns that return a `tower::Layer`",
        example: "layers = [audited, throttled]",
        default: "none",
        doc: "Middleware around the handler, the first one outermost.",
        mentions: Mentions::FUNCTIONS,
        read: calls!(layer, layers),
        ..Key::EQUALS
    },
    Key {
        name: "access",
        shapes: PARENTHESES,
        form: "rules in parentheses",
        example: "access(\"apps/deployments: get, patch\", \"pods/log: get\")",
        default: "none",
        doc: "What a `Client` or a retriever of your own may do, as RBAC rules. `access()` says nothing at all.",
        read: call!(access, rules),
        ..Key::EQUALS
    },
    Key {
        name: "main",
        form: "`false` or is left out",
        example: "main = false",
        default: "a `main` is generated",
        doc: "Without a `main`, for several controllers, modules and libraries: `kooper::main!(a, b)` makes one of them all.",
        read: keep!(main, only_false),
        ..Key::EQUALS
    },
    Key {
        name: "type_name",
        form: "a name",
        example: "type_name = EchoController",
        default: "the fn's name",
        doc: "The name of the generated type, where a type or module of the fn's name is in the way.",
        read: keep!(type_name, ident),
        ..Key::EQUALS
    },
    Key {
        name: "crate",
        form: "a path",
        example: "crate = my_platform::kooper",
        default: "`::kooper`",
        doc: "The path of kooper, where another crate re-exports it.",
        read: keep!(krate, path),
        ..Key::EQUALS
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::errors::Errors;

    #[test]
    fn every_example_is_read() {
        for key in CONTROLLER.keys {
            let tokens = key.example.parse().expect(key.name);
            let mut errors = Errors::new();
            let args = Args::parse(tokens, &mut errors);
            assert!(errors.check().is_ok(), "{}", key.example);
            assert!(args.has(key.name));
        }
    }

    #[test]
    fn every_key_is_described() {
        for key in CONTROLLER.keys {
            assert!([key.form, key.default, key.doc].iter().all(|text| !text.is_empty()), "{}", key.name);
        }
    }

    #[test]
    fn a_name_has_one_key() {
        let Table { keys, others, .. } = CONTROLLER;
        for (i, key) in keys.iter().enumerate() {
            assert!(keys.iter().skip(i + 1).all(|other| other.name != key.name), "{}", key.name);
            assert!(others.iter().all(|(other, _)| *other != key.name), "{}", key.name);
        }
        assert!(others.iter().all(|(_, ours)| CONTROLLER.find(ours).is_some()));
    }
}
