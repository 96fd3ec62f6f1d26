//! The keys of the attribute, each a module for editors to complete.
//!
//! A test of kooper-macros writes this file: `KOOPER_BLESS=1 cargo test -p kooper-macros`.

/// `resource = Pod`: The kind to retrieve. A list makes one independent controller for each kind, named `<name>-<kind>`; they share a generic handler. With `resource(Pod, optional)`, the process is ready even if the cluster does not have the kind. `resource(Token, secret)` marks its objects as secret, like Secrets: each of them is compressed separately, and their size is not published.
pub mod resource {}

/// `name = "echo-pod"`: The controller's name in metrics, logs, the Lease and the field manager, at most 63 characters.
pub mod name {}

/// `resync = "3m"`: Every object is reconciled again at this interval, after pending changes. `off`: only the first list and changes are reconciled.
pub mod resync {}

/// `workers = 4`: How many handlers run in parallel. A controller never runs two handlers for the same object at once.
pub mod workers {}

/// `retries = 5`: How many times a failed call is retried before its key waits for the next change or resync.
pub mod retries {}

/// `backoff = ("5ms", "1000s")`: The exponential back-off of a failing key: its initial and maximum delay.
pub mod backoff {}

/// `retry_rate = (10, 100)`: Retries per second and their burst, for all keys of the controller together.
pub mod retry_rate {}

/// `timeout = "30s"`: The maximum time for one call of the handler. Exceeding it is an error.
pub mod timeout {}

/// `namespace = "shop"`: The namespace to watch. `own` is that of the operator: the namespace of its pod or, outside of a cluster, of the kubeconfig's context. `--namespace` on the command line overrides it.
pub mod namespace {}

/// `namespaces = ["shop", "bakery"]`: The namespaces to watch, or with `namespaces(labels = "team=a")` a selector for them. `--namespace` on the command line overrides them.
pub mod namespaces {}

/// `labels = "app=web, tier in (front, edge)"`: Retrieve only objects that match this label selector. Its syntax is checked at compile time.
pub mod labels {}

/// `fields = "status.phase=Running"`: Retrieve only objects that match this field selector. The API server supports a few fields for each kind.
pub mod fields {}

/// `metadata_only`: Retrieve metadata only. The handler takes `Arc<PartialObjectMeta<K>>`.
pub mod metadata_only {}

/// `changed = [labels, "spec.replicas"]`: Which changes trigger the handler: `generation`, `labels`, `annotations`, `finalizers`, `status`, the paths of fields, or `any`. A new object, one that begins to match `when`, and the resync always do, and a deletion timestamp with `cleanup` or `while_deleting`.
pub mod changed {}

/// `when = is_ours`: A filter, called with each new version of an object, and again before each call of the handler.
pub mod when {}

/// `debounce = "2s"`: Changes of an object, and of its children and related objects, call the handler once the object has had none for this time, or after ten times this time. The first list, resyncs, retries, `reconcile_now`, keys of `sources` and deletions do not wait.
pub mod debounce {}

/// `priority = urgency`: Which objects are reconciled first while several wait for a worker: those with a higher number. Objects of the first list and resyncs count 100 less. Every tenth reconciliation is for the object that would be the first without priorities, so that none starves.
pub mod priority {}

/// `pause = "example.com/pause"`: While this annotation of an object is `true`, the handler is not called for it. Its deletion is handled as usual. With declared children, the status has the condition `Paused` meanwhile.
pub mod pause {}

/// `reconcile_now = "example.com/reconcile-now"`: Each change of this annotation calls the handler for the object at once, whatever `changed` says, and resets its back-off.
pub mod reconcile_now {}

/// `owns = [Deployment, Service]`: Kinds of children. A change of a child triggers the handler for its controller owner. `(Secret, labels = "app=shop", metadata_only)` fetches only some of them, and only their metadata.
pub mod owns {}

/// `watches = [ConfigMap => users_of, Secret => holders_of]`: Other kinds whose changes trigger the handler: `fn(&T) -> impl IntoIterator<Item = ObjectKey>` returns the keys for an object, both for its old and its new version. A second argument `&Reader<K>` reads the cache. `(Secret, fields = "type=Opaque") => holders_of` fetches only some of the objects.
pub mod watches {}

/// `reads = [(Secret, labels = "app=shop")]`: Selects the objects that each `Reader` of a kind reads, unless it names a `Subset`. Only these are fetched.
pub mod reads {}

/// `sources = [orders]`: Keys from outside the cluster: each `fn() -> impl Stream<Item = ObjectKey>` is called when the controller starts. A key triggers the handler if its object exists. A function that returns a `ReconcileAll` triggers it for all objects with each item of a stream.
pub mod sources {}

/// `children = [config, password(once), web(config, password)]`: Declares the children of each object, and their order. An entry is a *slot*: the path of a `fn(&K, …) -> T`, followed in parentheses by the slots whose children the function takes, and by flags. The children are applied and pruned before each call of the handler, which can take `Children<K>`.
pub mod children {}

/// `deletion = ordered`: Delete the children before their owner, and dependents before the children on which they depend. `cleanup` is called once all children are gone. Requires a `finalizer`.
pub mod deletion {}

/// `status = none`: Do not write the status. By default, `observedGeneration` and the conditions `Ready`, `Reconciling` and `Stalled` show the state of the declared children, and the status needs fields for them.
pub mod status {}

/// `cleanup = tear_down`: Called before an object is deleted, guaranteed by the `finalizer`. Arguments and return types are those of a handler; the finalizer is removed when it returns without an error and without requesting a requeue.
pub mod cleanup {}

/// `finalizer = "shop.example.com/cleanup"`: The finalizer that keeps an object until `cleanup` and the ordered deletion of its children are done. It is written out, so renaming the function leaves no object stuck.
pub mod finalizer {}

/// `on_leave = cleanup`: Also clean up an object that no longer matches `labels` or `fields`, or whose namespace no longer matches.
pub mod on_leave {}

/// `while_deleting`: Also call the handler for an object that is being deleted: one with a deletion timestamp, which a finalizer or a grace period keeps for a while.
pub mod while_deleting {}

/// `previous_names = ["old-name"]`: Earlier names of the controller. Fields that were applied under them are taken over, and a Lease that is held under one of them is respected. For a list of kinds, add the kind to each name: `old-name-pod`.
pub mod previous_names {}

/// `previous_finalizers = ["shop.example.com/old"]`: Earlier finalizers of the controller. Each is replaced by `finalizer`, or removed after `cleanup`.
pub mod previous_finalizers {}

/// `previous_program = "old-shop"`: The program's name before its binary was renamed. Fields that it applied are taken over, and a Lease that it holds is respected.
pub mod previous_program {}

/// `previous_children = [Ingress]`: Kinds of children whose slot was removed from `children`. Such children are pruned once all slots are applied and ready. Requires `children`, which can then be an empty list.
pub mod previous_children {}

/// `deleted = forget`: Called once for each deleted object, if this process observes the deletion; errors are not retried. Arguments are those of a handler, and `Gone`.
pub mod deleted {}

/// `daemon = watch_over`: Runs for each object until the object changes. A new generation or the deletion stops it at its next `await`. After an error or a panic it is restarted with back-off; after `Ok` it stays stopped until the next change. Arguments are those of a handler, except `Children`. With `children`, `Ready` is `False` after a failure. It runs in a controller named `<name>-daemon`.
pub mod daemon {}

/// `leader_election`: Run handlers in one replica only. Settings: `lease`, `namespace`, `lease_duration = "15s"`, `renew_deadline = "10s"`, `retry_period = "2s"`.
pub mod leader_election {}

/// `shards = 32`: Share the objects between the replicas: each handles those of its shards. Settings: `count`, `by = uid`, `members = 8`, `lease`, `namespace`, `lease_duration = "15s"`, `renew_deadline = "10s"`, `retry_period = "2s"`.
pub mod shards {}

/// `install_crd`: Apply the kind's CRD at the start, and wait until it is established.
pub mod install_crd {}

/// `samples = ["shop.yaml"]`: Files in YAML or JSON whose objects the command `dev` applies, unless it is given `-f`. Paths are relative to the source file, and the files become part of the program, as with `include_str!`.
pub mod samples {}

/// `init = connect`: Builds the shared state, once per process for each distinct function; with `leader_election` or `shards`, once for each controller. It may take `Client`, `Settings<T>`, `Clock` and capabilities; handlers take `State<S>`.
pub mod init {}

/// `events = brief`: How much detail the Kubernetes Events about failing calls have. Everyone who can view the object's namespace can read them. `brief`: only the function that failed, without its error. `full`: the error with its sources, and the message of a panic. `off`: no Events about failing calls or about their recovery, none of the Events `Undecodable`, `LeftSelector` and `FinalizerNotRemoved`, and no rule for them.
pub mod events {}

/// `settings = ShopSettings`: The type of the program's own settings: flags and environment variables in addition to those that every program has. Handlers, `init`, `cleanup`, `deleted` and `daemon` take `Settings<T>`, child functions `&Settings<T>`.
pub mod settings {}

/// `retriever = from_queue`: A custom retriever instead of the API server's.
pub mod retriever {}

/// `layers = [audited, throttled]`: Middleware around the handler, the outermost first.
pub mod layers {}

/// `rbac("apps/deployments: get, patch", "pods/log: get")`: RBAC rules for the requests of a `Client` or a custom retriever. `rbac()`: none.
pub mod rbac {}

/// `main = false`: Generate no `main`, for several controllers, modules and libraries: `kooper::main!(a, b)` generates one for all of them.
pub mod main {}

/// `type_name = EchoController`: The name of the generated type, if another type or module has the function's name.
pub mod type_name {}
