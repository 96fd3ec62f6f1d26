//! The base of [Kooper](https://github.com/kooper-rs/kooper): what the runtime and
//! everything above it stand on. Depend on the crate `kooper`, which re-exports the public
//! items.
//!
//! No module knows of objects, queues or handlers.

pub mod backoff;
pub mod client;
pub mod clock;
pub mod error;
#[doc(hidden)]
pub mod executor;
pub mod leader;
pub mod metrics;
