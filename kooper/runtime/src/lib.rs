//! The runtime of [Kooper](https://github.com/kooper-rs/kooper): how a change of an
//! object becomes a call of a handler. Depend on the crate `kooper`, which re-exports
//! the public items.
//!
//! The modules are listed in the order in which an object passes them: [`object`] is its
//! bytes, [`watch`] brings it from the API server into a store, [`queue`] decides which key
//! is next, [`call`] calls the handler, and [`controller`] joins them. Errors, clocks, the
//! layers of a client, metrics, leader election and the threads of handlers are in `kooper-base`.

#![allow(rustdoc::private_intra_doc_links, reason = "the order is for those who read the source")]

mod call;
mod controller;
mod held;
pub mod object;
pub mod queue;
mod watch;

pub use call::action::Action;
pub use call::context::ControllerContext;
pub use call::events::{FailureEvents, Note};
pub use call::{Call, Gone};
pub use controller::error::ControllerError;
pub use controller::health::Health;
pub use error::{BoxError, HandlerError, Result};
pub(crate) use kooper_base::executor;
pub use kooper_base::leader::shard::Shard;
pub use kooper_base::{backoff, client, clock, error, leader, metrics};
pub use kooper_grammar::name::NameError;
pub use object::key::ObjectKey;
pub use object::kind::{Kind, Namespaced};
pub use object::sections::Changed;
pub use queue::reason::{Reason, Reasons};
pub use watch::retriever::{self, Retriever};

/// The modules for the other crates of Kooper. No part of it is stable.
#[doc(hidden)]
pub mod internal;
