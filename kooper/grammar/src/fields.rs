//! Field selectors.

use std::fmt;

use crate::selector_error::SelectorError;

/// A field selector such as `status.phase=Running,spec.nodeName!=`.
///
/// The API server determines which fields can be used; they differ between kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses a field selector. An empty one selects everything.
    ///
    /// # Errors
    ///
    /// If a term is not `field=value`, `field==value` or `field!=value`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        if !text.is_empty() {
            for term in split(text) {
                terms.push(Term::parse(text, term)?);
            }
        }
        terms.sort();
        terms.dedup();
        Ok(Self { terms })
    }

    /// Returns `true` if an object is selected; `field` looks up its fields. A missing field
    /// is empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (field(&term.field).unwrap_or_default() == term.value) == term.equal)
    }

    /// Returns `true` if the selector selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, sorted: the field, whether it must be equal, and the value.
    pub fn terms(&self) -> impl Iterator<Item = (&str, bool, &str)> {
        self.terms.iter().map(|term| (term.field.as_str(), term.equal, term.value.as_str()))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", term.field)?;
            for c in term.value.chars() {
                if matches!(c, ',' | '=' | '\\') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

impl Term {
    fn parse(text: &str, term: &str) -> Result<Self, SelectorError> {
        let invalid = || SelectorError::Field { input: text.to_owned(), term: term.to_owned() };
        let (left, right) = term.split_once('=').ok_or_else(invalid)?;
        let (field, equal) = match left.strip_suffix('!') {
            Some(field) => (field, false),
            None => (left, true),
        };
        let value = if equal { right.strip_prefix('=').unwrap_or(right) } else { right };
        let named = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if field.is_empty() || !field.chars().all(named) {
            return Err(invalid());
        }
        Ok(Self { field: field.to_owned(), equal, value: unescape(text, value, invalid)? })
    }
}

/// The terms between commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(text: &str, value: &str, invalid: impl Fn() -> SelectorError) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ (',' | '=' | '\\')) => plain.push(c),
                _ => return Err(SelectorError::Escape(text.to_owned())),
            },
            '=' => return Err(invalid()),
            c => plain.push(c),
        }
    }
    Ok(plain)
}
