//! Shared parts of the macro: errors, places, lists and tokens.

pub(crate) mod controllers;
pub(crate) mod crate_path;
pub(crate) mod entries;
pub(crate) mod errors;
pub(crate) mod place;
pub(crate) mod spanned;
pub(crate) mod suggest;
pub(crate) mod text;
pub(crate) mod types;
