//! Label and field selectors, with the syntax of the API server.
//!
//! ```
//! use kooper_grammar::selector::Selector;
//!
//! let selector = Selector::parse("app = web, tier in (front, edge), !legacy")?;
//! let labels = [("app", "web"), ("tier", "edge")];
//! assert!(selector.matches_labels(labels));
//! assert_eq!(selector.to_string(), "app=web,!legacy,tier in (edge,front)");
//! # Ok::<(), kooper_grammar::selector::SelectorError>(())
//! ```

use std::fmt;

pub use crate::fields::FieldSelector;
pub use crate::requirement::{Comparator, Requirement};
pub use crate::selector_error::SelectorError;

/// A label selector, equality-based or set-based. An empty one selects everything.
///
/// Requirements and values are sorted, so two selectors with the same meaning are equal
/// and have the same string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// Parses a selector such as `app=web`, `tier in (front, edge)` or `!legacy`.
    ///
    /// # Errors
    ///
    /// If the API server would reject the string.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Requirement::parse_all(text)?;
        requirements.sort();
        requirements.dedup();
        Ok(Self { requirements })
    }

    /// Returns `true` if an object is selected; `label` looks up its labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(requirement.key())))
    }

    /// Returns `true` if an object with these labels is selected.
    pub fn matches_labels<'a, I>(&self, labels: I) -> bool
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
        I::IntoIter: Clone,
    {
        let labels = labels.into_iter();
        self.matches(|key| labels.clone().find(|(name, _)| *name == key).map(|(_, value)| value))
    }

    /// Returns `true` if the selector selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}
