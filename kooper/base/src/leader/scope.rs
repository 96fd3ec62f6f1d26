//! The namespaces that a candidate watches, as its record states them.

use std::fmt;
use std::sync::Arc;

/// Represents all namespaces.
const ALL: &str = "*";

/// The namespaces that a candidate watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedNamespaces(Arc<str>);

impl WatchedNamespaces {
    /// The given namespaces; empty for all.
    #[must_use]
    pub fn of(namespaces: &[String]) -> Self {
        let mut names: Vec<_> = namespaces.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        Self(if names.is_empty() { ALL.into() } else { names.join(",").into() })
    }

    /// Parses the form in a record.
    #[must_use]
    pub fn stated(text: &str) -> Self {
        Self(text.into())
    }

    /// The form in a record.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WatchedNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            ALL => f.write_str("all namespaces"),
            one if !one.contains(',') => write!(f, "namespace {one}"),
            several => write!(f, "namespaces {}", several.replace(',', ", ")),
        }
    }
}
