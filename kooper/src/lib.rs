//! Write a Kubernetes controller as one annotated async function.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use kooper::prelude::*;
//!
//! /// Logs every pod.
//! #[kooper::controller(resource = Pod, main = false)]
//! async fn echo(pod: Arc<Pod>) -> Result<()> {
//!     tracing::info!(pod = %pod.name_any(), "seen");
//!     Ok(())
//! }
//!
//! kooper::main!(echo);
//! ```
//!
//! A single controller at the root of a crate needs neither `main = false` nor
//! [`main!`]: the attribute generates a `main` with command-line flags, metrics,
//! probes and a graceful shutdown.
//!
//! [The first controller][first] starts a project from nothing, and runs it without
//! a cluster. [The attribute](macro@controller) documents each key.
//!
//! # Controllers
//!
//! A Kubernetes object has a *desired state*, mostly in its `spec`. A controller
//! compares it with the observed state and acts until both agree: it
//! *reconciles* the object. Your handler is that step. It is called with the
//! current object whenever the object, or something that belongs to it, may have
//! changed, and also at each resync.
//!
//! - A handler is *level-triggered*: it acts on the current state, not on the
//!   change that caused the call. Several changes may cause one call.
//! - A handler must be *idempotent*: if nothing has changed, another call changes
//!   nothing.
//! - If a handler returns an error, it is called again, with back-off.
//!
//! # Arguments
//!
//! A handler takes the arguments that it needs, in any order. They are extracted
//! by their types, and each adds its own RBAC rules to the role that the command
//! `rbac` prints. A call to a method that needs another permission does not compile.
//!
//! | argument | gives | RBAC rule |
//! |---|---|---|
//! | `Arc<K>` | the object; its metadata, as `Arc<PartialObjectMeta<K>>`, with the key `metadata_only`; some of its fields, as a type that derives [`Partial`] | `list`, `watch` on K |
//! | [`Call`] | the key, the attempt, the reasons, and whether the call is cancelled | |
//! | [`Clock`] | the time, which a test can pause | |
//! | [`State<S>`](State) | the state that the function `init` builds | |
//! | [`Settings<T>`](Settings) | your own flags and variables | |
//! | [`Children<K>`](Children) | the declared children of the object, with the key `children` | those of the declared children |
//! | [`Reader<T>`](Reader) | objects from a cache | `list`, `watch` on T |
//! | [`Getter<T>`](Getter) | an object from the API server | `get` on T |
//! | [`Creator<T>`](Creator) | creates objects | `create` on T |
//! | [`Applier<T>`](Applier) | applies objects with server-side apply | `create`, `patch` on T |
//! | [`OwnedApplier<T>`](OwnedApplier) | applies children of the object | `create`, `patch`, `list`, `watch` on T |
//! | [`Patcher<T>`](Patcher) | changes individual fields | `patch` on T |
//! | [`Deleter<T>`](Deleter) | deletes objects | `delete` on T |
//! | [`Evictor`] | evicts pods | `create` on `pods/eviction` |
//! | [`StatusWriter<T>`](StatusWriter) | writes the status of objects | `patch` on the status of T |
//! | [`Recorder`] | records Kubernetes Events on the object | `create`, `patch` on Events |
//! | [`Client`](kube::Client) | all other requests | the rules in `rbac(…)` |
//!
//! [`Gone`], the cause of an object's removal, is an argument of the function
//! `deleted` only. [The handler][handler] explains each argument and the results;
//! [permissions][permissions] lists which keys add further rules. [Tasks][tasks],
//! which run at an interval, and [admission webhooks][webhooks] are functions of the
//! same form, with fewer arguments.
//!
//! # Examples
//!
//! Reconcile a built-in kind: delete pods that have succeeded, ten minutes after their
//! creation. [The handler][handler] explains it.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kooper::prelude::*;
//!
//! #[kooper::controller(resource = Pod, fields = "status.phase=Succeeded", main = false)]
//! async fn sweep(pod: Arc<Pod>, call: Call, pods: Deleter<Pod>) -> Result<Action> {
//!     let created = pod.creation_timestamp().ok_or("it has no creation timestamp")?.0;
//!     let age = Duration::try_from(call.now().duration_since(created)).unwrap_or_default();
//!     if let Some(rest) = Duration::from_secs(600).checked_sub(age) {
//!         return Ok(Action::requeue_after(rest));
//!     }
//!     pods.delete_object(&pod).await?;
//!     Ok(Action::done())
//! }
//! ```
//!
//! Reconcile a custom resource, and report in its status:
//! [custom resources][custom-resources].
//!
//! ```
//! use kooper::prelude::*;
//! use kube::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! /// A greeting for someone.
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
//! struct GreetingSpec {
//!     name: String,
//! }
//!
//! #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
//! struct GreetingStatus {
//!     text: String,
//! }
//!
//! #[kooper::controller(resource = Greeting, install_crd, main = false)]
//! async fn greet(greeting: Arc<Greeting>, statuses: StatusWriter<Greeting>) -> Result<()> {
//!     let text = format!("Hello, {}!", greeting.spec.name);
//!     // Nothing is sent if the status is the same.
//!     statuses.apply_status(&greeting, &GreetingStatus { text }).await?;
//!     Ok(())
//! }
//! ```
//!
//! Create a child, and correct it when it changes: a ConfigMap in each namespace, which
//! is deleted together with the namespace. [Children and status][children] explains it. If
//! children depend on each other, [declare them][declared].
//!
//! ```
//! use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
//! use kooper::prelude::*;
//!
//! #[kooper::controller(resource = Namespace, main = false)]
//! async fn defaults(namespace: Arc<Namespace>, configs: OwnedApplier<ConfigMap>) -> Result<()> {
//!     let mut config = ConfigMap::default();
//!     config.metadata.name = Some("defaults".into());
//!     config.metadata.namespace = Some(namespace.name_any());
//!     config.data = Some([("team".into(), "unknown".into())].into());
//!     // Called again when the ConfigMap is changed or deleted.
//!     configs.apply_owned(&namespace, &config).await?;
//!     Ok(())
//! }
//! ```
//!
//! Clean up outside the cluster before an object is deleted:
//! [cleaning up][cleaning-up].
//!
//! ```
//! use k8s_openapi::api::core::v1::Service;
//! use kooper::prelude::*;
//! # async fn register(name: &str) -> Result<()> { Ok(()) }
//! # async fn unregister(name: &str) -> Result<()> { Ok(()) }
//!
//! #[kooper::controller(resource = Service, cleanup = remove, finalizer = "example.com/dns", main = false)]
//! async fn dns(service: Arc<Service>) -> Result<()> {
//!     register(&service.name_any()).await
//! }
//!
//! async fn remove(service: Arc<Service>) -> Result<()> {
//!     // Until this succeeds, it is called again and the Service remains.
//!     unregister(&service.name_any()).await
//! }
//! ```
//!
//! Test a handler without a cluster. [Testing][testing-page] also shows tests of whole
//! controllers on an API server in the same process.
//!
//! ```
//! use k8s_openapi::api::core::v1::Secret;
//! use kooper::prelude::*;
//! use kooper::testing::FakeCluster;
//!
//! #[kooper::controller(resource = Secret, main = false)]
//! async fn tidy(secret: Arc<Secret>, secrets: Deleter<Secret>) -> Result<()> {
//!     if secret.data.is_none() {
//!         secrets.delete_object(&secret).await?;
//!     }
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! // In a function with `#[tokio::test]`:
//! let cluster = FakeCluster::new();
//! let mut secret = Secret::default();
//! secret.metadata.name = Some("empty".into());
//! let secret = cluster.put(&secret)?;
//! cluster.call(tidy, &secret).await?;
//! assert_eq!(cluster.summary(), ["delete secrets default/empty"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Parts
//!
//! - A [`Retriever`] lists and watches the objects of one kind. The default one
//!   uses the API server; others are [two closures](retriever::from_fns) and
//!   [a channel](retriever::channel).
//! - A [handler](handler::Handler) reconciles one object. Its arguments grant
//!   [permissions](capability) and state.
//! - A [`Controller`] joins them, with a cache, a [work queue](queue::WorkQueue)
//!   and workers in between.
//! - An [`Operator`] runs several controllers, which fail independently.
//! - [`testing`] has clusters for tests of handlers and controllers.
//!
//! The attribute is a shorthand for a [builder](KindExt::controller), which can do
//! [the same without macros][builder-page].
//!
//! # The book
//!
//! [The book][book] teaches all of this in order, from the first controller to an
//! operator in production, and has the reference of flags, metrics and messages.
//! [How it works][how] explains the parts, and [guarantees][guarantees] what
//! handlers can rely on.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `macros` | yes | the attributes, and the derive macro `Partial` |
//! | `cli` | yes | [`main!`] and the generated `main` |
//! | `otel` | | traces for an OpenTelemetry collector |
//! | `apiserver` | | the Kubernetes API in this process, for the command `dev` and for tests; enables `cli` |
//! | `webhooks` | | admission webhooks: functions that validate or mutate objects before they are stored |
//! | `rustls-tls` | yes | TLS with rustls |
//! | `ring` | yes | the ring provider for rustls |
//! | `aws-lc-rs` | | the aws-lc-rs provider for rustls, instead of ring |
//! | `openssl-tls` | | TLS with OpenSSL |
//! | `http-proxy`, `socks5` | | proxies between the program and the API server |
//! | `jemalloc` | | the allocator jemalloc, for the whole program |
//! | `v1_33` … `v1_37`, `latest` | | the same feature of `k8s-openapi` |
//!
//! A binary enables one Kubernetes version, here or in `k8s-openapi` itself; a
//! library enables none.
//!
//! [first]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/01-first-controller.md
//! [handler]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/02-handler.md
//! [declared]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/21-declared-children.md
//! [tasks]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/24-tasks-and-daemons.md
//! [webhooks]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/20-webhooks.md
//! [custom-resources]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/03-custom-resources.md
//! [children]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/04-children-and-status.md
//! [cleaning-up]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/07-cleaning-up.md
//! [testing-page]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/10-testing.md
//! [permissions]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/11-permissions.md
//! [how]: https://github.com/kooper-rs/kooper/blob/main/docs/concepts/how-it-works.md
//! [guarantees]: https://github.com/kooper-rs/kooper/blob/main/docs/concepts/guarantees.md
//! [builder-page]: https://github.com/kooper-rs/kooper/blob/main/docs/guide/15-builder.md
//! [book]: https://github.com/kooper-rs/kooper/blob/main/docs/introduction.md

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
#[cfg(doctest)]
mod doctests;

/// Each string of a decoded object is allocated and freed, which takes the system's allocator a third of the CPU of a list.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[doc(inline)]
pub use kooper_access::{
    AccessError, Applier, BuildError, Clock, Conditions, ConfigError, ConfigErrorKind, Controller, Creator, Deleter,
    DurationError, Evictor, Getter, GoDuration, KindExt, Operator, OwnedApplier, Patcher, Reader, Recorder, RunError,
    SecretValue, Settings, State, Status, StatusWriter, capability, controller, events, extract, handler, plan,
    retriever,
};
#[cfg(feature = "apiserver")]
pub use kooper_apiserver as apiserver;
#[doc(inline)]
pub use kooper_children as children;
#[doc(inline)]
pub use kooper_children::{Children, External};
#[cfg(feature = "macros")]
pub use kooper_macros::{Partial, controller, explore, task, test};
#[cfg(all(feature = "macros", feature = "webhooks"))]
pub use kooper_macros::{mutate, validate};
#[cfg(feature = "cli")]
#[doc(inline)]
pub use kooper_program::App;
#[cfg(feature = "cli")]
#[doc(inline)]
pub use kooper_program::client;
#[doc(inline)]
pub use kooper_program::{http, metrics};
#[doc(inline)]
pub use kooper_runtime::{
    Action, BoxError, Call, Changed, ControllerError, Gone, HandlerError, Health, Kind, NameError, Namespaced,
    ObjectKey, Reason, Reasons, Result, Retriever, Shard, backoff, error, leader, object, queue,
};
#[doc(inline)]
pub use kooper_testing as testing;

/// The settings of controllers whose objects are shared between replicas.
pub mod shards {
    pub use kooper_sharding::Shards;
}
#[cfg(feature = "webhooks")]
pub use kooper_webhooks as webhooks;
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "cli")]
pub use clap;
pub use k8s_openapi;
pub use kube;
pub use prometheus;
pub use schemars;
pub use tower;
pub use tracing;

/// Generates a `main` that runs the named controllers and webhooks: the types that the
/// attributes generate next to each annotated function. It needs the feature `cli`.
///
/// A doc comment is the program's description in `--help`: one in the macro's
/// parentheses, because no macro can read the `//!` of the crate. `settings` names the
/// type of the program's own [settings](Settings), which derives `clap::Args`:
///
/// ```
/// # mod program {
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kooper::prelude::*;
///
/// #[derive(clap::Args)]
/// struct ShopSettings {
///     /// How all are greeted
///     #[arg(long, default_value = "hello")]
///     greeting: String,
/// }
///
/// #[kooper::controller(resource = Pod, main = false)]
/// async fn pods(settings: Settings<ShopSettings>) {}
///
/// #[kooper::controller(resource = Node, main = false)]
/// async fn nodes(settings: Settings<ShopSettings>) {}
///
/// kooper::main! {
///     /// Greets pods and nodes.
///     settings = ShopSettings, pods, nodes
/// }
/// # }
/// ```
#[macro_export]
macro_rules! main {
    ($(#[doc = $doc:expr])* $(settings = $settings:ty)? $(,)?) => {
        ::core::compile_error!("no controller to run: write the names of annotated functions, such as `kooper::main!(echo);`");
        fn main() {}
    };
    ($(#[doc = $doc:expr])* settings = $settings:ty, $($controller:ty),+ $(,)?) => {
        $crate::__private::v1::main!(
            @[$($doc,)*] [$crate::__private::v1::declare::<$settings>,] $($controller),+
        );
    };
    ($(#[doc = $doc:expr])* $($controller:ty),+ $(,)?) => {
        $crate::__private::v1::main!(@[$($doc,)*] [] $($controller),+);
    };
    (@[$($doc:expr,)*] [$($settings:expr,)?] $($controller:ty),+) => {
        $crate::__private::v1::require_cli!();
        fn main() -> $crate::__private::v1::ExitCode {
            $crate::__private::v1::main(
                match ::core::option_env!("CARGO_BIN_NAME") {
                    $crate::__private::v1::Option::Some(name) => name,
                    $crate::__private::v1::Option::None => ::core::env!("CARGO_PKG_NAME"),
                },
                ::core::env!("CARGO_PKG_VERSION"),
                &[$($doc),*],
                &[$($settings,)? $(<$controller as $crate::__private::v1::Definition>::declare),+],
                &[$(<$controller as $crate::__private::v1::Definition>::define),+],
            )
        }
    };
    ($($other:tt)*) => {
        ::core::compile_error!("the settings come first, then the names of annotated functions, with commas between them: write `kooper::main!(settings = ShopSettings, shops, orders);`");
        fn main() {}
    };
}

/// The names that most controllers need.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    pub use kube::core::metadata::PartialObjectMeta;
    pub use kube::{Client, Resource, ResourceExt};

    pub use crate::tracing;
    pub use crate::{
        AccessError, Action, Applier, Call, Children, Clock, Conditions, Creator, Deleter, Evictor, Getter, Gone,
        HandlerError, Kind, KindExt, ObjectKey, OwnedApplier, Patcher, Reader, Recorder, Result, Settings, State,
        Status, StatusWriter,
    };
}
