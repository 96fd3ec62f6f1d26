//! Why bytes or an object could not be transcoded.

use crate::table::{Field, Message};

/// The maximum depth of objects and lists, as in `serde_json`.
pub(crate) const NESTING: usize = 127;

/// Bytes that are not an encoded object, or an object that a type does not accept.
// It is boxed because each step of decoding returns it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {} at byte {}", .0.place, .0.problem, .0.offset)]
pub struct DecodeError(Box<Failure>);

#[derive(Debug)]
struct Failure {
    place: String,
    problem: Problem,
    offset: usize,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(place: impl Into<String>, problem: Problem, offset: usize) -> Self {
        Self(Box::new(Failure { place: place.into(), problem, offset }))
    }

    pub(crate) fn at(place: Place, problem: Problem, offset: usize) -> Self {
        Self::new(place.name(), problem, offset)
    }

    /// The message and field that could not be read: `io.k8s.api.core.v1.PodSpec.nodeName`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// The position of the value that could not be read, in the bytes that were given.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// Adds where it occurred to the error of a type, which does not know that.
    #[cold]
    pub(crate) fn within(mut self, place: Place, offset: usize) -> Self {
        if self.0.place.is_empty() {
            (self.0.place, self.0.offset) = (place.name(), offset);
        }
        self
    }
}

impl serde::de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new("", Problem::Type(message.to_string()), 0)
    }
}

/// The reason why the bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("the bytes do not begin with `k8s` and a zero byte")]
    Magic,
    #[error("the bytes end in the middle of a value")]
    Truncated,
    #[error("a number has more than 64 bits")]
    Overflow,
    #[error("a field number is 0 or too large")]
    Number,
    #[error("a value has the wire type {0}, which this field does not accept")]
    WireType(u8),
    #[error("a group is not closed, or was not opened")]
    Group,
    #[error("objects and lists are nested more than {NESTING} deep")]
    Nesting,
    #[error("it contains invalid JSON: {0}")]
    Json(serde_json::Error),
    #[error("the type of an IntOrString is {0}, but must be 0 or 1")]
    IntOrString(u64),
    #[error("the kind {0} is unknown")]
    Kind(String),
    #[error("the kind `{0}` is not that of a list")]
    NoList(String),
    #[error("a number is infinite or NaN")]
    NotFinite,
    #[error("{0}")]
    Type(String),
}

/// An object that has no encoding.
#[derive(Debug, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct EncodeError {
    place: String,
    expected: &'static str,
    found: String,
}

impl EncodeError {
    pub(crate) fn new(place: Place, expected: &'static str, found: &serde_json::Value) -> Self {
        const LENGTH: usize = 60;
        let mut found = found.to_string();
        if found.chars().count() > LENGTH {
            found = found.chars().take(LENGTH).chain("…".chars()).collect();
        }
        Self { place: place.name(), expected, found }
    }

    /// The message and field of the value: `io.k8s.api.core.v1.PodSpec.nodeName`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// A message, and perhaps one of its fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) message: Message,
    pub(crate) field: Option<Field>,
}

impl Place {
    fn name(self) -> String {
        let message = self.message.name();
        match self.field.map(Field::name) {
            Some(field) if !field.is_empty() => format!("{message}.{field}"),
            _ => message,
        }
    }
}

impl From<Message> for Place {
    fn from(message: Message) -> Self {
        Self { message, field: None }
    }
}
