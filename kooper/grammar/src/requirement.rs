//! One term of a label selector.

use std::fmt;

use crate::name;
use crate::selector_error::SelectorError;

/// A condition on one label of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    key: String,
    operator: Comparator,
    values: Vec<String>,
}

/// The comparison of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Comparator {
    /// `key=value` and `key in (a,b)`: the label exists and has one of the values.
    In,
    /// `key!=value` and `key notin (a,b)`: the label has none of the values, or does not exist.
    NotIn,
    /// `key`: the label exists.
    Exists,
    /// `!key`: the label does not exist.
    DoesNotExist,
    /// `key>1`: the label is an integer greater than that.
    GreaterThan,
    /// `key<1`: the label is an integer less than that.
    LessThan,
}

impl Requirement {
    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The comparison.
    #[must_use]
    pub fn operator(&self) -> Comparator {
        self.operator
    }

    /// The values that the label is compared with, sorted.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns `true` if a label satisfies the requirement; `None` is a missing label.
    #[must_use]
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| value == label);
        let ordered = |compare: fn(&i64, &i64) -> bool| {
            let label = label.and_then(|label| label.parse().ok());
            let bound = self.values.first().and_then(|value| value.parse().ok());
            label.zip(bound).is_some_and(|(label, bound)| compare(&label, &bound))
        };
        match self.operator {
            Comparator::In => label.is_some_and(listed),
            Comparator::NotIn => !label.is_some_and(listed),
            Comparator::Exists => label.is_some(),
            Comparator::DoesNotExist => label.is_none(),
            Comparator::GreaterThan => ordered(i64::gt),
            Comparator::LessThan => ordered(i64::lt),
        }
    }

    /// Parses all terms of a label selector.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, SelectorError> {
        let mut terms = Vec::new();
        let mut tokens = Tokens { text, rest: text };
        if tokens.peek().is_empty() {
            return Ok(terms);
        }
        loop {
            terms.push(Self::parse(&mut tokens)?);
            match tokens.next() {
                "" => return Ok(terms),
                "," => {}
                found => return Err(tokens.unexpected(found, "`,` or the end")),
            }
        }
    }

    fn parse(tokens: &mut Tokens<'_>) -> Result<Self, SelectorError> {
        if tokens.take("!") {
            let key = tokens.key()?;
            return Ok(Self { key, operator: Comparator::DoesNotExist, values: Vec::new() });
        }
        let key = tokens.key()?;
        let (operator, mut values) = match tokens.peek() {
            "" | "," => (Comparator::Exists, Vec::new()),
            _ => match tokens.next() {
                "=" | "==" => (Comparator::In, vec![tokens.value()?]),
                "!=" => (Comparator::NotIn, vec![tokens.value()?]),
                "in" => (Comparator::In, tokens.set()?),
                "notin" => (Comparator::NotIn, tokens.set()?),
                ">" => (Comparator::GreaterThan, vec![tokens.integer()?]),
                "<" => (Comparator::LessThan, vec![tokens.integer()?]),
                found => return Err(tokens.unexpected(found, "`=`, `!=`, `in (…)` or `notin (…)`")),
            },
        };
        values.sort();
        values.dedup();
        Ok(Self { key, operator, values })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match (self.operator, self.values.len()) {
            (Comparator::In, 1) => write!(f, "{key}={values}"),
            (Comparator::NotIn, 1) => write!(f, "{key}!={values}"),
            (Comparator::In, _) => write!(f, "{key} in ({values})"),
            (Comparator::NotIn, _) => write!(f, "{key} notin ({values})"),
            (Comparator::Exists, _) => write!(f, "{key}"),
            (Comparator::DoesNotExist, _) => write!(f, "!{key}"),
            (Comparator::GreaterThan, _) => write!(f, "{key}>{values}"),
            (Comparator::LessThan, _) => write!(f, "{key}<{values}"),
        }
    }
}

/// The words and symbols of a label selector; an empty one is its end.
struct Tokens<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let symbol = ["==", "!=", "=", "!", ">", "<", ",", "(", ")"];
        let length = symbol.iter().find(|symbol| rest.starts_with(**symbol)).map(|symbol| symbol.len());
        let word = |c: char| c.is_whitespace() || "=!><,()".contains(c);
        rest.split_at(length.or_else(|| rest.find(word)).unwrap_or(rest.len())).0
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = self.rest.trim_start().strip_prefix(token).unwrap_or_default();
        token
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    /// The next token if it is a word; otherwise the empty string.
    fn word(&mut self) -> &'a str {
        let token = self.peek();
        if token.starts_with(['=', '!', '>', '<', ',', '(', ')']) { "" } else { self.next() }
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        let key = self.word();
        if key.is_empty() {
            return Err(self.unexpected(self.peek(), "a label key"));
        }
        name::qualified(key).map_err(|source| self.misnamed(source))?;
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        let value = self.word();
        name::label_value(value).map_err(|source| self.misnamed(source))?;
        Ok(value.to_owned())
    }

    fn integer(&mut self) -> Result<String, SelectorError> {
        let value = self.value()?;
        match value.parse::<i64>() {
            Ok(_) => Ok(value),
            Err(_) => Err(SelectorError::NotANumber { input: self.text.to_owned(), found: value }),
        }
    }

    fn set(&mut self) -> Result<Vec<String>, SelectorError> {
        if !self.take("(") {
            return Err(self.unexpected(self.peek(), "values in parentheses, such as `(a, b)`"));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match self.next() {
                "," => {}
                ")" => return Ok(values),
                found => return Err(self.unexpected(found, "`,` or `)`")),
            }
        }
    }

    fn unexpected(&self, found: &str, wanted: &'static str) -> SelectorError {
        SelectorError::Unexpected { input: self.text.to_owned(), found: found.to_owned(), wanted }
    }

    fn misnamed(&self, source: name::NameError) -> SelectorError {
        SelectorError::Name { input: self.text.to_owned(), source }
    }
}
