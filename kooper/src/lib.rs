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
//! A single controller at the root of a crate needs no `main = false` and no
//! `main!`: the attribute writes the `main`, a program with flags, metrics,
//! probes and an orderly stop.
//!
//! # Parts
//!
//! - A [`Retriever`] lists and watches objects of one kind: the API server's,
//!   or those of [two closures](retriever::from_fns) or of
//!   [a test](retriever::channel).
//! - A [handler](handler::Handler) does what is to be done with one of them.
//! - Both make a [`Controller`], with a store, a [work queue](queue::WorkQueue)
//!   and workers between them.
//! - An [`Operator`] runs several controllers, each with a fate of its own.
//!
//! What the attribute says can be said with [`Controller::builder`] too: the
//! attribute writes calls of it.
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `macros` | yes | the attribute |
//! | `cli` | yes | [`main!`] and the generated `main` |
//! | `otel` | | spans for an OpenTelemetry collector |
//! | `rustls-tls` | yes | TLS by rustls |
//! | `ring` | yes | ring for rustls |
//! | `aws-lc-rs` | | aws-lc-rs for rustls, in place of ring |
//! | `openssl-tls` | | TLS by OpenSSL |
//! | `v1_33` … `v1_37`, `latest` | | the same feature of `k8s-openapi` |
//!
//! A binary chooses one Kubernetes version, here or at `k8s-openapi` itself;
//! a library chooses none.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod backoff;
mod call;
pub mod controller;
#[cfg(doctest)]
mod doctests;
pub mod error;
pub mod leader;
pub mod metrics;
pub mod object;
mod program;
pub mod queue;
pub mod testing;
mod watch;

pub use call::action::Action;
pub use call::capability::{
    AccessError, Applier, Conditions, Creator, Deleter, Evictor, Getter, OwnedApplier, Patcher, Reader, Recorder,
    StatusWriter,
};
pub use call::extract::{Gone, State};
pub use call::{Call, capability, events, extract, handler, plan};
pub use controller::Controller;
pub use controller::error::{BuildError, ConfigError, ControllerError, RunError};
pub use controller::operator::{self, Operator};
pub use error::{BoxError, HandlerError, Result};
#[cfg(feature = "macros")]
pub use kooper_macros::controller;
pub use metrics::health::Health;
pub use object::key::ObjectKey;
pub use object::kind::{Kind, Namespaced};
pub use object::sections::Changed;
pub use program::http;
pub use queue::reason::{Reason, Reasons};
pub use tokio_util::sync::CancellationToken;
pub use watch::retriever::{self, Retriever};

pub use k8s_openapi;
pub use kube;
pub use prometheus;
pub use schemars;
pub use tower;
pub use tracing;

/// Generates `main` for the controllers named: their types, as the attribute
/// generates them beside each annotated fn. It needs the feature `cli`.
#[macro_export]
macro_rules! main {
    () => {
        ::core::compile_error!("no controller to run: write the names of annotated functions, such as `kooper::main!(echo);`");
        fn main() {}
    };
    ($($controller:ty),+ $(,)?) => {
        $crate::__private::v1::require_cli!();
        fn main() -> $crate::__private::v1::ExitCode {
            $crate::__private::v1::main(
                match ::core::option_env!("CARGO_BIN_NAME") {
                    $crate::__private::v1::Option::Some(name) => name,
                    $crate::__private::v1::Option::None => ::core::env!("CARGO_PKG_NAME"),
                },
                ::core::env!("CARGO_PKG_VERSION"),
                &[$(<$controller as $crate::__private::v1::Definition>::define),+],
            )
        }
    };
}

/// What a controller's file needs.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::core::metadata::PartialObjectMeta;
    pub use kube::{Client, Resource, ResourceExt};

    pub use crate::call::capability::{
        AccessError, Applier, Conditions, Creator, Deleter, Evictor, Getter, OwnedApplier, Patcher, Reader, Recorder,
        StatusWriter,
    };
    pub use crate::tracing;
    pub use crate::{Action, Call, Gone, HandlerError, Kind, ObjectKey, Result, State};
}
