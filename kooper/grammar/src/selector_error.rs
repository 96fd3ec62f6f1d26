//! Why a string is not a selector.

use std::error::Error;
use std::fmt;

use crate::name::NameError;

/// Why a string is not a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectorError {
    /// A word is not the expected key, operator or value.
    Unexpected {
        /// The whole string.
        input: String,
        /// The unexpected word; empty at the end.
        found: String,
        /// The expected words.
        wanted: &'static str,
    },
    /// A key or a value of a label selector is invalid.
    Name {
        /// The whole string.
        input: String,
        /// The problem.
        source: NameError,
    },
    /// `>` and `<` need an integer.
    NotANumber {
        /// The whole string.
        input: String,
        /// The value that is not an integer.
        found: String,
    },
    /// A term of a field selector is not `field=value` or `field!=value`.
    Field {
        /// The whole string.
        input: String,
        /// The term.
        term: String,
    },
    /// A backslash in a field selector does not escape anything.
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

// The message contains that of the name, which is therefore not a `source`.
impl Error for SelectorError {}
