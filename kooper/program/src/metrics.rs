//! Metrics of controllers.
//!
//! The runtime records into a [`MetricsRecorder`]. [`Prometheus`] exports the
//! metrics of Kooper for Go, controller-runtime and client-go through a
//! registry of your own; [`NoMetrics`] records nothing.
//!
//! All durations are exported in seconds. A generated program serves them at
//! `/metrics`; for an [`Operator`](kooper_access::Operator) of your own, pass a recorder
//! to its builder.

mod client;
mod gauges;
mod recorder;
mod series;
#[doc(hidden)]
pub mod table;
#[cfg(test)]
mod tests;

pub use client::{ClientLayer, CountRequests};
#[doc(inline)]
pub use kooper_runtime::metrics::*;
pub use recorder::{Prometheus, PrometheusBuilder};

/// Declares a struct of metrics, each with its type and the call that makes it.
macro_rules! families {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) { $($family:ident: $type:ty = $value:expr;)* }) => {
        $(#[$doc])*
        pub(super) struct $name {
            $(pub(super) $family: $type,)*
        }

        impl $name {
            pub(super) fn new($($arg: $of),*) -> prometheus::Result<Self> {
                Ok(Self { $($family: $value?,)* })
            }

            pub(super) fn parts(&self) -> Vec<&dyn Collector> {
                vec![$(&self.$family),*]
            }
        }
    };
}
pub(crate) use families;
