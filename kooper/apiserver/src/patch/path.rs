//! Paths to fields, as structured-merge-diff's `fieldpath` defines them.

use std::fmt;

use super::literal::Literal;

/// One step from an object to a part of it. The order is that in which the
/// real server lists conflicts: fields, then keys, values and indices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of an object or a key of a map.
    Field(Box<str>),
    /// The item of a list map with these keys, sorted by name.
    Key(Vec<(Box<str>, Literal)>),
    /// The item of a set with this value.
    Value(Literal),
    /// The item of an atomic list at this place.
    Index(i64),
}

impl PathElement {
    /// The step to a field.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }
}

/// As messages show it: `.name`, `[name="web"]`, `[="value"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<_> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(formatter, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// The steps from an object to a field of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl Path {
    /// A path of fields alone: `["metadata", "name"]`.
    #[must_use]
    pub fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(name)).collect())
    }
}

/// The steps one after the other: `.spec.ports[port=80,protocol="TCP"].name`.
impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(formatter))
    }
}
