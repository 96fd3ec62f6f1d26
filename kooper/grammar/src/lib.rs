//! The small grammars that Kooper's macros and runtime share.
//!
//! The macros check attributes at compile time; the runtime checks flags and
//! environment variables. Both use these modules, so both have the same rules
//! and messages. There are no dependencies.
//!
//! Each module has one error type. Its message contains the input and what to
//! write instead.

pub mod access;
pub mod cron;
pub mod duration;
pub mod field_name;
pub mod field_path;
mod fields;
pub mod lease;
pub mod name;
mod requirement;
pub mod selector;
mod selector_error;
pub mod suggest;
