//! Objects read by their schema: which fields they have, how they differ, and
//! how they are merged.
//!
//! Each module is one of the walks of structured-merge-diff's `typed` package.
//! `None` is an absent value, which differs from `null`.

pub(crate) mod combine;
pub(crate) mod compare;
pub(crate) mod field_set;
pub(crate) mod item;
pub(crate) mod reconcile;
pub(crate) mod remove;
pub(crate) mod validate;

use std::fmt;

use serde_json::{Map, Value};

/// The places where an object contradicts its schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mismatches(pub(crate) Vec<Mismatch>);

/// A place where an object contradicts its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) path: String,
    pub(crate) message: String,
}

impl fmt::Display for Mismatches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => only.fmt(formatter),
            all => {
                formatter.write_str("errors:")?;
                all.iter().try_for_each(|mismatch| write!(formatter, "\n  {mismatch}"))
            }
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, message } = self;
        if path.is_empty() { formatter.write_str(message) } else { write!(formatter, "{path}: {message}") }
    }
}

/// The members of an object; none for `null`, an absent value and what has none.
fn members(value: Option<&Value>) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.and_then(Value::as_object).unwrap_or(&NONE)
}

/// The items of an array; none for `null`, an absent value and what has none.
fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The keys of both objects, sorted, each once.
fn keys<'v>(left: &'v Map<String, Value>, right: &'v Map<String, Value>) -> impl Iterator<Item = &'v String> {
    left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)))
}
