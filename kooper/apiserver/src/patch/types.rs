//! Schema information for patches: the fields that exist, the maps and lists
//! that are merged and their keys, and those that are replaced as a whole.
//!
//! The rules are those of structured-merge-diff's schema
//! (<https://github.com/kubernetes-sigs/structured-merge-diff>), and for
//! strategic merge patches those of `patchStrategy` and `patchMergeKey` in the
//! API conventions. [`super::openapi`] compiles them from OpenAPI.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Allowed forms of a value. A schema without a `type` allows all three forms.
#[derive(Debug, Default)]
pub struct Type {
    /// The last part of its definition's name, or empty for a schema in place.
    pub name: Box<str>,
    /// Merge rules if the value is an object.
    pub map: Option<MapType>,
    /// Merge rules if the value is an array.
    pub list: Option<ListType>,
    /// Allowed scalars if the value is neither an object nor an array.
    pub scalar: Option<Scalar>,
}

/// The scalars that a schema allows. `null` is always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Numeric,
    /// A string.
    String,
    /// A boolean.
    Boolean,
    /// Any of them.
    Any,
}

/// An object: declared fields, and how others are treated.
#[derive(Debug, Default)]
pub struct MapType {
    /// The declared fields.
    pub fields: BTreeMap<Box<str>, Field>,
    /// The type of other keys; `None` forbids them.
    pub element: Option<Reference>,
    /// `true` if the map is replaced as a whole
    /// (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// `true` if the map is free-form: no declared fields, and any value under any key.
    pub free: bool,
}

/// An array.
#[derive(Debug)]
pub struct ListType {
    /// The type of its items.
    pub element: Reference,
    /// Criterion by which items are distinguished.
    pub kind: ListKind,
}

/// Criterion by which the items of a list are distinguished
/// (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// They aren't: the list is replaced as a whole.
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields (`x-kubernetes-list-map-keys`).
    Map(Vec<Box<str>>),
}

/// A declared field.
#[derive(Debug)]
pub struct Field {
    /// Its type.
    pub ty: Reference,
    /// Its default, which stands in for an absent key of a list map.
    pub default: Option<Value>,
    /// `true` if the schema requires the field.
    pub required: bool,
    /// Rules for strategic merge patches.
    pub strategy: Strategy,
}

/// Rules for merging a field by a strategic merge patch
/// (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Lists are merged instead of replaced.
    pub merge: bool,
    /// Maps are replaced instead of merged.
    pub replace: bool,
    /// The field by which items of a merged list are distinguished.
    pub merge_key: Option<Box<str>>,
}

/// The use of a type, by name or in place.
#[derive(Clone, Debug)]
pub struct Reference {
    pub(super) target: Target,
    /// `x-kubernetes-map-type` at the place of use.
    pub(super) atomic: Option<bool>,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A definition, compiled when it is first needed.
    Named(Box<str>),
    /// A schema in place.
    Inline(Arc<Type>),
    /// Anything; objects are merged, arrays are replaced.
    Deduced,
    /// Anything, replaced as a whole.
    Untyped,
}
