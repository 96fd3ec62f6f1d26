//! The sizes that a schema allows its values.

use std::collections::BTreeMap;

/// The largest request that kube-apiserver assumes, which bounds what has no bound of its own.
const LARGEST_REQUEST: u64 = 3 << 20;

/// The size that values of a schema may have, and those of what is in them.
#[derive(Debug)]
pub(crate) struct Extent {
    /// Characters, bytes, elements or entries; none for what has no size.
    pub(super) most: u64,
    /// The length of the shortest JSON.
    pub(crate) shortest: u64,
    pub(super) parts: Parts,
}

#[derive(Debug)]
pub(super) enum Parts {
    None,
    Items(Box<Extent>),
    /// The values of a map; its keys have the extent beside them.
    Values(Box<(Extent, Extent)>),
    Fields(BTreeMap<String, Extent>),
}

impl Extent {
    /// Of a value that has no parts, with the bound that it has.
    pub(crate) fn plain(most: u64, shortest: u64) -> Self {
        Self { most, shortest, parts: Parts::None }
    }

    pub(crate) fn text(longest: Option<u64>) -> Self {
        Self::plain(longest.unwrap_or(LARGEST_REQUEST - 2), 2)
    }

    pub(crate) fn int_or_string(longest: Option<u64>) -> Self {
        Self { shortest: 1, ..Self::text(longest) }
    }

    pub(crate) fn list(of: Self, most: Option<u64>) -> Self {
        let most = most.unwrap_or((LARGEST_REQUEST - 2) / (of.shortest + 1));
        Self { most, shortest: 2, parts: Parts::Items(Box::new(of)) }
    }

    pub(crate) fn map(of: Self, most: Option<u64>) -> Self {
        let most = most.unwrap_or((LARGEST_REQUEST - 2) / (of.shortest + 6));
        // Kubernetes gives keys no size.
        Self { most, shortest: 2, parts: Parts::Values(Box::new((Self::plain(0, 2), of))) }
    }

    pub(crate) fn object(fields: BTreeMap<String, Self>, shortest: u64) -> Self {
        Self { most: 0, shortest, parts: Parts::Fields(fields) }
    }

    /// The number of such values in a request that has nothing else.
    pub(crate) fn most_in_request(&self) -> u64 {
        LARGEST_REQUEST / (self.shortest + 1)
    }

    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match &self.parts {
            Parts::Fields(fields) => fields.get(name),
            _ => None,
        }
    }

    /// The elements of a list or the values of a map.
    pub(super) fn values(&self) -> Option<&Self> {
        match &self.parts {
            Parts::Items(of) => Some(of),
            Parts::Values(both) => Some(&both.1),
            _ => None,
        }
    }

    pub(super) fn keys(&self) -> Option<&Self> {
        match &self.parts {
            Parts::Values(both) => Some(&both.0),
            _ => None,
        }
    }
}
