//! Label and field selectors, as the API server reads them.
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

use std::error::Error;
use std::fmt;

pub use crate::fields::FieldSelector;
pub use crate::requirement::{Operator, Requirement};

use crate::name::NameError;

/// A label selector, set-based ones included. An empty one selects everything.
///
/// Requirements and values are kept sorted, so two selectors that say the same are equal
/// and are written alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// Reads a selector such as `app=web`, `tier in (front, edge)` or `!legacy`.
    ///
    /// # Errors
    ///
    /// When the API server would refuse the text.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Requirement::parse_all(text)?;
        requirements.sort();
        requirements.dedup();
        Ok(Self { requirements })
    }

    /// Whether an object is selected whose labels `label` looks up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(requirement.key())))
    }

    /// Whether an object with these labels is selected.
    pub fn matches_labels<'a, I>(&self, labels: I) -> bool
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
        I::IntoIter: Clone,
    {
        let labels = labels.into_iter();
        self.matches(|key| labels.clone().find(|(name, _)| *name == key).map(|(_, value)| value))
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// What an object has to satisfy, sorted.
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

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectorError {
    /// Something else stands where a key, an operator or a value belongs.
    Unexpected {
        /// The whole text.
        input: String,
        /// What stands there, empty at the end.
        found: String,
        /// What belongs there.
        wanted: &'static str,
    },
    /// A key or a value of a label selector is not one.
    Name {
        /// The whole text.
        input: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// `>` and `<` compare with an integer.
    NotANumber {
        /// The whole text.
        input: String,
        /// What stands where the number belongs.
        found: String,
    },
    /// A term of a field selector is not `field=value` or `field!=value`.
    Field {
        /// The whole text.
        input: String,
        /// The term.
        term: String,
    },
    /// A backslash of a field selector that escapes nothing.
    Escape(String),
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { input, found, wanted } if found.is_empty() => {
                write!(f, "the selector \"{input}\" ends too early: expected {wanted}")
            }
            Self::Unexpected { input, found, wanted } => {
                write!(f, "the selector \"{input}\" has an unexpected `{found}`: expected {wanted}")
            }
            Self::Name { input, source } => {
                write!(f, "the selector \"{input}\" is invalid: {source}")
            }
            Self::NotANumber { input, found } => {
                write!(f, "the selector \"{input}\" compares with `{found}`: write an integer after `>` and `<`")
            }
            Self::Field { input, term } => write!(
                f,
                "the field selector \"{input}\" has the term `{term}`: \
                 write `field=value` or `field!=value`, such as `status.phase=Running`"
            ),
            Self::Escape(input) => write!(
                f,
                "the field selector \"{input}\" has a `\\` that escapes nothing: \
                 write it only before `,`, `=` and `\\`"
            ),
        }
    }
}

impl Error for SelectorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Name { source, .. } => Some(source),
            _ => None,
        }
    }
}
