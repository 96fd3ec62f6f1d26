//! Ranges of sizes.

use super::Estimate;
use crate::cel::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// The sizes of the keys and values of a map, or of the indexes and elements of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Size {
    pub(super) const UNKNOWN: Self = Self::up_to(u64::MAX);

    pub(super) const fn exactly(size: u64) -> Self {
        Self { least: size, most: size }
    }

    pub(super) const fn up_to(most: u64) -> Self {
        Self { least: 0, most }
    }

    /// Of a literal.
    pub(super) fn of(value: &Value) -> Self {
        Self::exactly(match value {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(data) => data.len() as u64,
            _ => 1,
        })
    }

    /// The range in which the sizes of several values are.
    pub(super) fn of_all(all: &[Estimate]) -> Self {
        all.iter().map(Estimate::size).reduce(Self::or).unwrap_or(Self::exactly(0))
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { least: self.least.saturating_mul(other.least), most: self.most.saturating_mul(other.most) }
    }
}

impl Entry {
    pub(super) fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// A number times a factor, rounded up.
pub(super) fn scaled(number: u64, factor: f64) -> u64 {
    // A float beyond the range becomes its end.
    (number as f64 * factor).ceil() as u64
}
