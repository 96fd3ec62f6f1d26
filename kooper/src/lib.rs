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
//! the same without macros.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `macros` | yes | the attribute |
//! | `cli` | yes | [`main!`] and the generated `main` |
//! | `otel` | | traces for an OpenTelemetry collector |
//! | `apiserver` | | the Kubernetes API in this process, for the command `dev` and for tests; enables `cli` |
//! | `webhooks` | | admission webhooks: functions that validate or change objects before they are stored |
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

#[cfg(feature = "apiserver")]
pub use kooper_apiserver as apiserver;
#[cfg(feature = "macros")]
pub use kooper_macros::{controller, explore, test};
#[cfg(feature = "cli")]
#[doc(inline)]
pub use kooper_program::App;
#[doc(inline)]
pub use kooper_program::http;
#[cfg(feature = "cli")]
#[doc(inline)]
pub use kooper_runtime::client;
#[doc(inline)]
pub use kooper_runtime::{
    AccessError, Action, Applier, BoxError, BuildError, Call, Changed, Clock, Conditions, ConfigError, ConfigErrorKind,
    Controller, ControllerError, Creator, Deleter, DurationError, Evictor, Getter, GoDuration, Gone, HandlerError,
    Health, Kind, KindExt, NameError, Namespaced, ObjectKey, Operator, OwnedApplier, Patcher, Reader, Reason, Reasons,
    Recorder, Result, Retriever, RunError, SecretValue, Settings, State, StatusWriter, backoff, capability, controller,
    error, events, extract, handler, leader, metrics, object, plan, queue, retriever,
};
#[doc(inline)]
pub use kooper_testing as testing;
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

/// Generates a `main` that runs the named controllers: the types that the
/// attribute generates next to each annotated function. It needs the feature `cli`.
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
}

/// The names that most controllers need.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::core::metadata::PartialObjectMeta;
    pub use kube::{Client, Resource, ResourceExt};

    pub use crate::tracing;
    pub use crate::{
        AccessError, Action, Applier, Call, Clock, Conditions, Creator, Deleter, Evictor, Getter, Gone, HandlerError,
        Kind, KindExt, ObjectKey, OwnedApplier, Patcher, Reader, Recorder, Result, Settings, State, StatusWriter,
    };
}
