//! Why a strategic merge patch was refused.

use std::fmt;

use serde_json::{Map, Value};

use super::super::format::{display, type_name};

/// Why a strategic merge patch was refused, with the real server's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategicError {
    /// The patch isn't an object.
    BadDocument,
    /// A `$deleteFromPrimitiveList` names no list.
    PrimitiveList,
    /// `$retainKeys` isn't a list, or lacks a key of the patch.
    RetainKeys,
    /// A `$setElementOrder` isn't a list, or names none.
    ElementOrder,
    /// A merged list has lists as items.
    ListOfLists,
    /// The patch has what the schema hasn't.
    Schema(String),
    /// The patch contradicts itself or the object.
    Content(String),
}

impl StrategicError {
    /// The status code: 400 for malformed patches, 422 for lists of lists, and
    /// 500 for everything else, for which the real server knows no better.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::BadDocument | Self::PrimitiveList | Self::RetainKeys | Self::ElementOrder => 400,
            Self::ListOfLists => 422,
            Self::Schema(_) | Self::Content(_) => 500,
        }
    }

    pub(super) fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> Self {
        let directive = match directive {
            Value::String(text) => text.clone(),
            other => format!("%!s({}={})", type_name(other), display(other)),
        };
        Self::Content(format!("unknown patch type: {directive} in map: {}", display(&Value::Object(map.clone()))))
    }

    pub(super) fn no_merge_key(map: &Value, key: &str) -> Self {
        Self::Content(format!("map: {} does not contain declared merge key: {key}", display(map)))
    }

    /// `expected` and the type of `actual` as Go prints them.
    pub(super) fn wrong_type(expected: &str, actual: &Value) -> Self {
        let actual = if actual.is_null() { "%!s(<nil>)" } else { type_name(actual) };
        Self::Content(format!("expected a {expected}, but received a {actual}"))
    }
}

impl fmt::Display for StrategicError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::BadDocument => "invalid JSON document",
            Self::PrimitiveList => "invalid patch format of primitive list",
            Self::RetainKeys => "invalid patch format of retainKeys",
            Self::ElementOrder => "invalid patch format of setElementOrder list",
            Self::ListOfLists => "lists of lists are not supported",
            Self::Schema(message) | Self::Content(message) => message,
        })
    }
}

impl std::error::Error for StrategicError {}
