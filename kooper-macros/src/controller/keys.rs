//! The keys of `#[controller]`.
//!
//! A new key is a row here, a case in `mistakes`, a controller in `ui-tests/pass`, and a section in
//! `attribute.md`; `KOOPER_BLESS=1 cargo test -p kooper-macros` writes the reference page.

mod annotations;
mod calls;
mod others;
mod tasks;

use crate::controller::args::Args;
use crate::controller::key::{Key, KeySyntax, Mentions, PARENTHESES, Table};
use crate::controller::objects::{self, Objects};
use crate::controller::setting::{Setting, Stage, call, calls, keep};
use crate::controller::value::{paths, strings, words};
use crate::controller::{election, namespaces, resource, shards, slots};
use crate::support::spanned::Spanned;

pub(crate) use tasks::TASK;

/// The table of the attribute.
pub(crate) const CONTROLLER: Table<Args> =
    Table { noun: "key", example: "resource = Pod", keys: KEYS, others: others::OTHERS };

/// All keys, in the order of the reference page.
const KEYS: &[Key<Args>] = &[
    Key {
        name: "resource",
        syntaxes: &[KeySyntax::Equals, KeySyntax::Parentheses],
        form: "a kind, or a list of kinds",
        example: "resource = Pod",
        default: "required",
        doc: "The kind to retrieve. A list makes one independent controller for each kind, named `<name>-<kind>`; they share a generic handler. With `resource(Pod, optional)`, the process is ready even if the cluster does not have the kind. `resource(Token, secret)` marks its objects as secret, like Secrets: each of them is compressed separately, and their size is not published.",
        mentions: Mentions::Kinds,
        read: |args, value| {
            let (resource, options) = resource::read(value)?;
            args.resource = Some(resource);
            args.settings.extend(options);
            Ok(())
        },
    },
    Key {
        name: "name",
        form: "a DNS label",
        example: "name = \"echo-pod\"",
        default: "the function's name in kebab case",
        doc: "The controller's name in metrics, logs, the Lease and the field manager, at most 63 characters.",
        read: keep!(name, strings::label),
        ..Key::EQUALS
    },
    calls::RESYNC,
    calls::WORKERS,
    calls::RETRIES,
    calls::BACKOFF,
    calls::RETRY_RATE,
    calls::TIMEOUT,
    Key {
        name: "namespace",
        form: "the name of a namespace, or `own`",
        example: "namespace = \"shop\"",
        default: "all",
        doc: "The namespace to watch. `own` is that of the operator: the namespace of its pod or, outside of a cluster, of the kubeconfig's context. `--namespace` on the command line overrides it.",
        mentions: Mentions::Constants,
        read: |args, value| {
            args.settings.push(match words::own(value) {
                Some(own) => Setting::new("own_namespace", own),
                None => Setting::new("namespaces", strings::label_or_constant(value)?.map(|name| vec![name])),
            });
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "namespaces",
        syntaxes: &[KeySyntax::Equals, KeySyntax::Parentheses],
        form: "a list of names of namespaces, or a selector in parentheses such as `(labels = \"team=a\")`",
        example: "namespaces = [\"shop\", \"bakery\"]",
        default: "all",
        doc: "The namespaces to watch, or with `namespaces(labels = \"team=a\")` a selector for them. `--namespace` on the command line overrides them.",
        mentions: Mentions::Constants,
        read: |args, value| {
            args.settings.push(namespaces::read(value)?);
            Ok(())
        },
    },
    Key {
        name: "labels",
        form: "a label selector",
        example: "labels = \"app=web, tier in (front, edge)\"",
        default: "none",
        doc: "Retrieve only objects that match this label selector. Its syntax is checked at compile time.",
        mentions: Mentions::Constants,
        read: call!(labels, strings::labels_or_constant),
        ..Key::EQUALS
    },
    Key {
        name: "fields",
        form: "a field selector",
        example: "fields = \"status.phase=Running\"",
        default: "none",
        doc: "Retrieve only objects that match this field selector. The API server supports a few fields for each kind.",
        mentions: Mentions::Constants,
        read: call!(fields, strings::fields_or_constant),
        ..Key::EQUALS
    },
    Key {
        name: "metadata_only",
        example: "metadata_only",
        default: "off",
        doc: "Retrieve metadata only. The handler takes `Arc<PartialObjectMeta<K>>`.",
        read: call!(metadata_only, words::flag, Stage::Object),
        ..Key::FLAG
    },
    Key {
        name: "changed",
        form: "a list of parts of an object, each a word or the path of a field",
        example: "changed = [labels, \"spec.replicas\"]",
        default: "`[any]`",
        doc: "Which changes trigger the handler: `generation`, `labels`, `annotations`, `finalizers`, `status`, the paths of fields, or `any`. A new object, one that begins to match `when`, and the resync always do, and a deletion timestamp with `cleanup` or `while_deleting`.",
        read: |args, value| {
            let changed = words::changes(value)?;
            args.changed.clone_from(&changed.value);
            args.settings.push(Setting::new("changed", changed));
            Ok(())
        },
        ..Key::EQUALS
    },
    calls::WHEN,
    calls::DEBOUNCE,
    calls::PRIORITY,
    annotations::PAUSE,
    annotations::RECONCILE_NOW,
    Key {
        name: "owns",
        form: "a list of kinds",
        example: "owns = [Deployment, Service]",
        default: "none",
        doc: "Kinds of children. A change of a child triggers the handler for its controller owner. `(Secret, labels = \"app=shop\", metadata_only)` fetches only some of them, and only their metadata.",
        mentions: Mentions::Kinds,
        read: calls!(owns, objects::children),
        ..Key::EQUALS
    },
    Key {
        name: "watches",
        form: "a list of kinds, each with the path of a function, or a closure",
        example: "watches = [ConfigMap => users_of, Secret => holders_of]",
        default: "none",
        doc: "Other kinds whose changes trigger the handler: `fn(&T) -> impl IntoIterator<Item = ObjectKey>` returns the keys for an object, both for its old and its new version. A second argument `&Reader<K>` reads the cache. `(Secret, fields = \"type=Opaque\") => holders_of` fetches only some of the objects.",
        mentions: Mentions::Functions,
        read: calls!(watches, objects::maps),
        ..Key::EQUALS
    },
    Key {
        name: "reads",
        form: "a list of kinds, each with a selection",
        example: "reads = [(Secret, labels = \"app=shop\")]",
        default: "all objects",
        doc: "Selects the objects that each `Reader` of a kind reads, unless it names a `Subset`. Only these are fetched.",
        mentions: Mentions::Kinds,
        read: |args, value| {
            let reads = objects::readers(value)?;
            args.reads = reads.value.iter().map(Objects::read).collect();
            args.settings.extend(Setting::each("reads", reads));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "sources",
        form: "a list of paths of functions that return a stream of keys, or of closures",
        example: "sources = [orders]",
        default: "none",
        doc: "Keys from outside the cluster: each `fn() -> impl Stream<Item = ObjectKey>` is called when the controller starts. A key triggers the handler if its object exists. A function that returns a `ReconcileAll` triggers it for all objects with each item of a stream.",
        mentions: Mentions::Functions,
        read: calls!(source_from, paths::functions),
        ..Key::EQUALS
    },
    Key {
        name: "children",
        form: "a list of child functions, each with its inputs and flags in parentheses",
        example: "children = [config, password(once), web(config, password)]",
        default: "none",
        doc: "Declares the children of each object, and their order. An entry is a *slot*: the path of a `fn(&K, …) -> T`, followed in parentheses by the slots whose children the function takes, and by flags. The children are applied and pruned before each call of the handler, which can take `Children<K>`.",
        mentions: Mentions::Functions,
        read: keep!(children, slots::read),
        ..Key::EQUALS
    },
    Key {
        name: "deletion",
        form: "`ordered`",
        example: "deletion = ordered",
        default: "Kubernetes deletes the children, in any order",
        doc: "Delete the children before their owner, and dependents before the children on which they depend. `cleanup` is called once all children are gone. Requires a `finalizer`.",
        read: keep!(deletion, words::only, "ordered"),
        ..Key::EQUALS
    },
    Key {
        name: "status",
        form: "`none`",
        example: "status = none",
        default: "the conditions of the children are written",
        doc: "Do not write the status. By default, `observedGeneration` and the conditions `Ready`, `Reconciling` and `Stalled` show the state of the declared children, and the status needs fields for them.",
        read: keep!(no_status, words::only, "none"),
        ..Key::EQUALS
    },
    Key {
        name: "cleanup",
        form: "the path of an async function",
        example: "cleanup = tear_down",
        default: "none",
        doc: "Called before an object is deleted, guaranteed by the `finalizer`. Arguments and return types are those of a handler; the finalizer is removed when it returns without an error and without requesting a requeue.",
        mentions: Mentions::Functions,
        read: keep!(cleanup, paths::path),
        ..Key::EQUALS
    },
    Key {
        name: "finalizer",
        form: "a name in your own domain",
        example: "finalizer = \"shop.example.com/cleanup\"",
        default: "required with `cleanup` and `deletion`",
        doc: "The finalizer that keeps an object until `cleanup` and the ordered deletion of its children are done. It is written out, so renaming the function leaves no object stuck.",
        mentions: Mentions::Constants,
        read: keep!(finalizer, strings::finalizer),
        ..Key::EQUALS
    },
    Key {
        name: "on_leave",
        form: "`cleanup`",
        example: "on_leave = cleanup",
        default: "such an object keeps its finalizer",
        doc: "Also clean up an object that no longer matches `labels` or `fields`, or whose namespace no longer matches.",
        read: keep!(on_leave, words::only, "cleanup"),
        ..Key::EQUALS
    },
    Key {
        name: "while_deleting",
        example: "while_deleting",
        default: "an object that is being deleted is ignored",
        doc: "Also call the handler for an object that is being deleted: one with a deletion timestamp, which a finalizer or a grace period keeps for a while.",
        read: call!(while_deleting, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "previous_names",
        form: "a list of previous names of the controller",
        example: "previous_names = [\"old-name\"]",
        default: "none",
        doc: "Earlier names of the controller. Fields that were applied under them are taken over, and a Lease that is held under one of them is respected. For a list of kinds, add the kind to each name: `old-name-pod`.",
        read: |args, value| {
            let names = strings::labels(value)?;
            args.previous_names.clone_from(&names.value);
            args.settings.push(Setting::new("previous_names", names));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "previous_finalizers",
        form: "a list of previous finalizers of the controller",
        example: "previous_finalizers = [\"shop.example.com/old\"]",
        default: "none",
        doc: "Earlier finalizers of the controller. Each is replaced by `finalizer`, or removed after `cleanup`.",
        read: keep!(previous_finalizers, strings::finalizers),
        ..Key::EQUALS
    },
    Key {
        name: "previous_program",
        form: "the previous name of the program",
        example: "previous_program = \"old-shop\"",
        default: "none",
        doc: "The program's name before its binary was renamed. Fields that it applied are taken over, and a Lease that it holds is respected.",
        read: call!(previous_program, strings::label),
        ..Key::EQUALS
    },
    Key {
        name: "previous_children",
        form: "a list of kinds",
        example: "previous_children = [Ingress]",
        default: "children of removed slots stay until their owner is deleted",
        doc: "Kinds of children whose slot was removed from `children`. Such children are pruned once all slots are applied and ready. Requires `children`, which can then be an empty list.",
        mentions: Mentions::Kinds,
        read: keep!(previous_children, paths::kinds),
        ..Key::EQUALS
    },
    Key {
        name: "deleted",
        form: "the path of an async function",
        example: "deleted = forget",
        default: "none",
        doc: "Called once for each deleted object, if this process observes the deletion; errors are not retried. Arguments are those of a handler, and `Gone`.",
        mentions: Mentions::Functions,
        read: call!(deleted, paths::path),
        ..Key::EQUALS
    },
    calls::DAEMON,
    Key {
        name: "leader_election",
        syntaxes: &[KeySyntax::Flag, KeySyntax::Parentheses],
        form: "no value, or settings in parentheses such as `(lease_duration = \"30s\")`",
        example: "leader_election",
        default: "off",
        doc: "Run handlers in one replica only. Settings: `lease`, `namespace`, `lease_duration = \"15s\"`, `renew_deadline = \"10s\"`, `retry_period = \"2s\"`.",
        mentions: Mentions::Constants,
        read: |args, value| {
            let election = election::read(value)?;
            args.lease = election.value.lease.or(args.lease);
            args.settings.push(Setting::new("leader_election", election));
            Ok(())
        },
    },
    Key {
        name: "shards",
        syntaxes: &[KeySyntax::Equals, KeySyntax::Parentheses],
        form: "a power of two, at most 256, or settings in parentheses such as `(count = 32, by = namespace)`",
        example: "shards = 32",
        default: "off",
        doc: "Share the objects between the replicas: each handles those of its shards. Settings: `count`, `by = uid`, `members = 8`, `lease`, `namespace`, `lease_duration = \"15s\"`, `renew_deadline = \"10s\"`, `retry_period = \"2s\"`.",
        mentions: Mentions::Constants,
        read: |args, value| {
            let shards = shards::read(value)?;
            args.by_namespace = shards.value.by_namespace;
            args.lease = shards.value.lease.or(args.lease);
            let method = if args.by_namespace { "shards_by_namespace" } else { "shards" };
            args.settings.push(Setting::new(method, shards));
            Ok(())
        },
    },
    Key {
        name: "install_crd",
        example: "install_crd",
        default: "off",
        doc: "Apply the kind's CRD at the start, and wait until it is established.",
        read: call!(install_crd, words::flag),
        ..Key::FLAG
    },
    Key {
        name: "samples",
        form: "a list of files",
        example: "samples = [\"shop.yaml\"]",
        default: "an object generated from the schema of the kind",
        doc: "Files in YAML or JSON whose objects the command `dev` applies, unless it is given `-f`. Paths are relative to the source file, and the files become part of the program, as with `include_str!`.",
        read: calls!(sample, paths::files),
        ..Key::EQUALS
    },
    Key {
        name: "init",
        form: "the path of an `async fn(…) -> Result<S, E>`",
        example: "init = connect",
        default: "none",
        doc: "Builds the shared state, once per process for each distinct function; with `leader_election` or `shards`, once for each controller. It may take `Client`, `Settings<T>`, `Clock` and capabilities; handlers take `State<S>`.",
        mentions: Mentions::Functions,
        read: call!(init, paths::path, Stage::State),
        ..Key::EQUALS
    },
    Key {
        name: "events",
        form: "`off`, `brief` or `full`",
        example: "events = brief",
        default: "the outermost message of an error",
        doc: "How much detail the Kubernetes Events about failing calls have. Everyone who can view the object's namespace can read them. `brief`: only the function that failed, without its error. `full`: the error with its sources, and the message of a panic. `off`: no Events about failing calls or about their recovery, none of the Events `Undecodable`, `LeftSelector` and `FinalizerNotRemoved`, and no rule for them.",
        read: call!(events, words::failure_events),
        ..Key::EQUALS
    },
    Key {
        name: "settings",
        form: "a type that derives `clap::Args`",
        example: "settings = ShopSettings",
        default: "none",
        doc: "The type of the program's own settings: flags and environment variables in addition to those that every program has. Handlers, `init`, `cleanup`, `deleted` and `daemon` take `Settings<T>`, child functions `&Settings<T>`.",
        mentions: Mentions::Kinds,
        read: keep!(own, paths::ty),
        ..Key::EQUALS
    },
    Key {
        name: "retriever",
        form: "the path of a `fn(Client) -> impl Retriever<K>`, or a closure",
        example: "retriever = from_queue",
        default: "the API server's",
        doc: "A custom retriever instead of the API server's.",
        mentions: Mentions::Functions,
        read: |args, value| {
            // All of it has the place of the value, which the message about its type is about.
            let function = paths::function(value)?;
            args.settings.push(Setting::new("retriever_from", Spanned { key: function.place.start, ..function }));
            Ok(())
        },
        ..Key::EQUALS
    },
    Key {
        name: "layers",
        form: "a list of paths of functions that return a `tower::Layer`",
        example: "layers = [audited, throttled]",
        default: "none",
        doc: "Middleware around the handler, the outermost first.",
        mentions: Mentions::Functions,
        read: calls!(layer, paths::layers),
        ..Key::EQUALS
    },
    Key {
        name: "rbac",
        syntaxes: PARENTHESES,
        form: "rules in parentheses",
        example: "rbac(\"apps/deployments: get, patch\", \"pods/log: get\")",
        default: "none",
        doc: "RBAC rules for the requests of a `Client` or a custom retriever. `rbac()`: none.",
        read: call!(rbac, strings::rules),
        ..Key::EQUALS
    },
    Key {
        name: "main",
        form: "`false`",
        example: "main = false",
        default: "a `main` is generated",
        doc: "Generate no `main`, for several controllers, modules and libraries: `kooper::main!(a, b)` generates one for all of them.",
        read: keep!(main, words::only_false),
        ..Key::EQUALS
    },
    Key {
        name: "type_name",
        form: "a name",
        example: "type_name = EchoController",
        default: "the function's name",
        doc: "The name of the generated type, if another type or module has the function's name.",
        read: keep!(type_name, words::ident),
        ..Key::EQUALS
    },
    Key {
        name: "crate",
        form: "a path",
        example: "crate = my_platform::kooper",
        default: "`::kooper`",
        doc: "The path of kooper, if another crate re-exports it.",
        read: keep!(krate, paths::path),
        ..Key::EQUALS
    },
];
