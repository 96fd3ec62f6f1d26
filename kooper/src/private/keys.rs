//! The keys of the attribute, each a module for editors to complete.
//!
//! A test of kooper-macros writes this file: `KOOPER_BLESS=1 cargo test -p kooper-macros`.

/// `resource = Pod`: The kind to retrieve. A list makes one independent controller for each kind, named `<name>-<kind>`, which share a generic handler. `resource(Pod, optional)`: a cluster without the kind does not make the process unready.
pub mod resource {}

/// `name = "echo-pod"`: The controller's name in metrics, logs, lease and field manager, at most 63 characters.
pub mod name {}

/// `resync = "3m"`: Every object goes to the handler again each interval, behind real events. `off`: the first list once, then events only.
pub mod resync {}

/// `workers = 4`: Handlers that run in parallel. One object is never with two of them.
pub mod workers {}

/// `retries = 5`: Calls after a failed first one, before the key waits for its next event or resync.
pub mod retries {}

/// `backoff = ("5ms", "1000s")`: The exponential delay before a failed key is tried again, first and longest.
pub mod backoff {}

/// `retry_rate = (10, 100)`: Retries a second and their burst, for all keys of the controller together.
pub mod retry_rate {}

/// `timeout = "30s"`: The longest time for one call of the handler. Exceeding it is an error.
pub mod timeout {}

/// `namespace = "shop"`: Where to look. `--namespace` on the command line overrides it.
pub mod namespace {}

/// `namespaces = ["shop", "bakery"]`: Where to look, when that is several namespaces.
pub mod namespaces {}

/// `labels = "app=web, tier in (front, edge)"`: Only objects with such labels, selected by the server. Its syntax is checked at compile time.
pub mod labels {}

/// `fields = "status.phase=Running"`: Only objects with such fields, selected by the server, which knows a few for each kind.
pub mod fields {}

/// `metadata_only`: Retrieve metadata only. The handler takes `Arc<PartialObjectMeta<K>>`.
pub mod metadata_only {}

/// `changed = [generation, labels]`: Which changes wake the handler: `generation`, `labels`, `annotations`, `finalizers`, `status` or `any`. The first sight of an object, its deletion mark and the resync always do.
pub mod changed {}

/// `when = is_ours`: A filter before the queue, asked of each new version.
pub mod when {}

/// `owns = [Deployment, Service]`: Kinds of children: one whose controller owner is an object of ours wakes that owner.
pub mod owns {}

/// `watches = [ConfigMap => users_of, Secret => holders_of]`: Other objects that wake ours: `fn(&T) -> impl IntoIterator<Item = ObjectKey>` names them, of the old version and of the new one. A second argument `&Reader<K>` looks into the cache.
pub mod watches {}

/// `sources = [orders]`: Keys from outside: each `fn() -> impl Stream<Item = ObjectKey>` is called when the controller runs. A key wakes the handler if its object exists.
pub mod sources {}

/// `cleanup = tear_down`: What is done before an object vanishes, guaranteed by the `finalizer`. Arguments and outcome are as a handler's; the object goes when it returns without an error and without asking to come back.
pub mod cleanup {}

/// `finalizer = "shop.example.com/cleanup"`: The name of the mark that keeps an object until `cleanup` is done. It is written out, so that renaming the fn orphans nothing.
pub mod finalizer {}

/// `on_leave = cleanup`: An object that leaves `labels` or `fields` alive is cleaned up as well.
pub mod on_leave {}

/// `former_names = ["old-name"]`: Names that the controller had before: the fields that it applied under them are taken over, and a Lease of theirs that is held is respected. For a list of kinds, write each name with its kind: `old-name-pod`.
pub mod former_names {}

/// `former_finalizers = ["shop.example.com/old"]`: Finalizers that the controller had before: each is replaced by `finalizer`, or removed after `cleanup`.
pub mod former_finalizers {}

/// `former_program = "old-shop"`: The program's name before its binary was renamed: the fields that it applied are taken over, and a Lease of it that is held is respected.
pub mod former_program {}

/// `deleted = forget`: Told of objects that vanished, as far as the process sees it: one try each. Arguments are as a handler's, and `Gone`.
pub mod deleted {}

/// `leader_election`: Handlers run in one replica only. Settings: `lease`, `namespace`, `lease_duration = "15s"`, `renew_deadline = "10s"`, `retry_period = "2s"`.
pub mod leader_election {}

/// `install_crd`: Apply the kind's CRD at the start, and wait until the server has it.
pub mod install_crd {}

/// `init = connect`: Builds the shared state, once in a process for each distinct fn; with `leader_election` once for each controller. It may take `Client` and capabilities; handlers take `State<S>`.
pub mod init {}

/// `retriever = from_queue`: A retriever of your own in place of the API's.
pub mod retriever {}

/// `layers = [audited, throttled]`: Middleware around the handler, the first one outermost.
pub mod layers {}

/// `access("apps/deployments: get, patch", "pods/log: get")`: What a `Client` or a retriever of your own may do, as RBAC rules. `access()` says nothing at all.
pub mod access {}

/// `main = false`: Without a `main`, for several controllers, modules and libraries: `kooper::main!(a, b)` makes one of them all.
pub mod main {}

/// `type_name = EchoController`: The name of the generated type, where a type or module of the fn's name is in the way.
pub mod type_name {}
