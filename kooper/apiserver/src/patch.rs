//! Patches of objects: JSON patch, JSON merge, strategic merge and server-side apply.
//!
//! Every function here is pure: it takes JSON values and a description of the
//! schema, and returns the patched value.
//!
//! From the bottom up: [`types`] and [`schema`] define how a kind is merged.
//! [`path`], [`fields`] and [`fields_v1`] identify its fields, and [`managed`] their
//! owners. [`field_manager`] updates the owners on writes ([`update`]) and applies
//! ([`apply`]). [`json`], [`merge`] and [`strategic`] are the other patches.

pub mod apply;
mod cap;
pub mod conflict;
pub(crate) mod duplicates;
pub mod field_manager;
pub mod fields;
pub mod fields_v1;
pub(crate) mod format;
pub mod json;
mod last_applied;
pub mod literal;
pub mod managed;
pub mod merge;
pub mod noop;
pub mod openapi;
pub mod path;
mod prune;
pub mod reset;
pub mod scale;
pub mod schema;
pub mod strategic;
mod typed;
pub mod types;
pub mod update;
pub mod user_agent;
pub mod versions;
pub mod zero;
