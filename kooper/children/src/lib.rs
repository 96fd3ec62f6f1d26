//! Declared children of [Kooper](https://github.com/kooper-rs/kooper)'s controllers: functions say what should exist
//! for an object, and in what order.
//!
//! A *slot* is a function and what it depends on. [`graph`] checks and orders the slots of a controller. [`mod@plan`]
//! decides what is next: it is a function of the owner, its slots and what is [`observed`], without any I/O.
//! [`mod@readiness`] judges objects by the rules of their kind.

pub mod graph;
pub mod observed;
pub mod plan;
pub mod readiness;
