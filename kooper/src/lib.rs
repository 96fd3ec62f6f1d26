//! Write a Kubernetes controller as one annotated async function.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod action;
pub mod backoff;
pub mod call;
#[cfg(feature = "cli")]
mod cli;
pub mod controller;
pub mod error;
pub mod extract;
pub mod handler;
pub mod health;
pub mod http;
mod informer;
pub mod key;
pub mod metrics;
pub mod object;
pub mod operator;
pub mod plan;
pub mod queue;
pub mod reason;
pub mod retriever;
mod store;
mod worker;

pub use action::Action;
pub use call::Call;
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
pub use schemars;
pub use tracing;

/// Generates `main` for the controllers named: their types, as the attribute
/// generates them beside each annotated fn.
#[cfg(feature = "cli")]
#[macro_export]
macro_rules! main {
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

/// What a controller's file needs.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use kube::core::metadata::PartialObjectMeta;
    pub use kube::{Client, Resource, ResourceExt};

    pub use crate::{Action, Call, Error, Job, ObjectKey, Result, State};
}
