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
//!   [a test](retriever::source).
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
pub mod action;
pub mod backoff;
pub mod call;
pub mod capability;
#[cfg(feature = "cli")]
mod cli;
pub mod controller;
mod crd;
#[cfg(doctest)]
mod doctests;
pub mod error;
pub mod events;
pub mod extract;
mod finalizer;
pub mod handler;
pub mod health;
mod held;
pub mod http;
mod informer;
mod installation;
pub mod key;
pub mod kind;
pub mod leader;
mod lookup;
pub mod metrics;
pub mod object;
pub mod operator;
pub mod plan;
mod program;
pub mod queue;
#[cfg(feature = "cli")]
mod rbac;
pub mod reason;
mod refusal;
pub mod retriever;
mod review;
mod store;
pub mod testing;
mod worker;

pub use action::Action;
pub use call::Call;
pub use capability::{
    Applier, Conditions, Creator, Deleter, Evictor, Getter, OwnedApplier, Patcher, Reader, Recorder, StatusWriter,
};
pub use controller::{ConfigError, Controller};
pub use error::{BoxError, Error, Result};
pub use extract::State;
pub use handler::Job;
pub use key::ObjectKey;
#[cfg(feature = "macros")]
pub use kooper_macros::controller;
pub use operator::Operator;
pub use retriever::Retriever;
pub use tokio_util::sync::CancellationToken;

pub use k8s_openapi;
pub use kube;
pub use prometheus;
pub use schemars;
pub use tower;
pub use tracing;

/// Generates `main` for the controllers named: their types, as the attribute
/// generates them beside each annotated fn.
#[cfg(feature = "cli")]
#[macro_export]
macro_rules! main {
    () => {
        ::core::compile_error!("no controller to run: write the names of annotated fns, such as `kooper::main!(echo);`");
        fn main() {}
    };
    ($($controller:ty),+ $(,)?) => {
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

/// Generates `main`, in a build with the feature `cli`.
#[cfg(not(feature = "cli"))]
#[macro_export]
macro_rules! main {
    ($($controller:tt)*) => {
        ::core::compile_error!(
            "`main` needs the feature `cli` of kooper: add it, or write `main = false` and run an `Operator`"
        );
        fn main() {}
    };
}

/// What a controller's file needs.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::core::metadata::PartialObjectMeta;
    pub use kube::{Client, Resource, ResourceExt};

    pub use crate::capability::{
        Applier, Conditions, Creator, Deleter, Evictor, Getter, OwnedApplier, Patcher, Reader, Recorder, StatusWriter,
    };
    pub use crate::controller::Kind;
    pub use crate::tracing;
    pub use crate::{Action, Call, Error, Job, ObjectKey, Result, State};
}
