//! What the macro is made with: errors, spans, lists, and the tokens of small things.

pub(crate) mod crate_path;
pub(crate) mod entries;
pub(crate) mod errors;
pub(crate) mod place;
pub(crate) mod spanned;
pub(crate) mod suggest;
pub(crate) mod text;
