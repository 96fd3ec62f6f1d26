//! Where two end states differ.

use std::fmt;

use serde_json::Value;

use super::children::with_slot;
use super::text::number;

/// Where an object differs from that of the histories without faults.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// Such as `Secret default/a`.
    pub(super) object: String,
    /// Its slot, if it is a declared child.
    pub(super) slot: Option<String>,
    pub(super) kind: Divergence,
}

/// The kind of a difference between an object and the expected one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Divergence {
    /// There are fewer objects of this name: the numbers expected and found.
    Missing(usize, usize),
    /// There are more.
    LeftOver(usize, usize),
    /// A field has another value; absent is `null`.
    Field { path: String, expected: Value, found: Value },
    /// A field that is another one in each history lacks what they have in common: the end of a sentence.
    PartialField { path: String, what: String },
}

impl Divergence {
    pub(super) fn of(self, object: &str, slot: Option<&str>) -> Difference {
        Difference { object: object.to_owned(), slot: slot.map(str::to_owned), kind: self }
    }

    /// The field that differs, unless it is the number of objects.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Missing(..) | Self::LeftOver(..) => None,
            Self::Field { path, .. } | Self::PartialField { path, .. } => Some(path),
        }
    }
}

/// Reports each field of a value that differs from the expected one.
pub(super) fn compare(path: String, expected: &Value, found: &Value, differs: &mut impl FnMut(Divergence)) {
    match (expected, found) {
        _ if expected == found => {}
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(path, &expected[name], &found[name], differs);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (expected, found)) in before.iter().zip(after).enumerate() {
                compare(format!("{path}[{index}]"), expected, found, differs);
            }
        }
        _ => differs(Divergence::Field { path, expected: expected.clone(), found: found.clone() }),
    }
}

/// As the end of a sentence.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = with_slot(format!("`{}`", self.object), self.slot.as_deref());
        match &self.kind {
            Divergence::Missing(1, 0) => write!(f, "{object} is missing"),
            Divergence::LeftOver(0, 1) => write!(f, "{object} is left over"),
            Divergence::Missing(expected, found) | Divergence::LeftOver(expected, found) => {
                write!(f, "{object} exists {} instead of {expected}", number(*found, "time"))
            }
            Divergence::Field { path, expected, found } => {
                write!(f, "`{path}` of {object} is {} instead of {}", Shortened(found), Shortened(expected))
            }
            Divergence::PartialField { path, what } => write!(f, "`{path}` of {object} {what}"),
        }
    }
}

/// A value, at most so long.
pub(super) struct Shortened<'a>(pub(super) &'a Value);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() {
            return f.write_str("absent");
        }
        let text = self.0.to_string();
        match text.char_indices().nth(200) {
            Some((end, _)) => write!(f, "`{}…`", &text[..end]),
            None => write!(f, "`{text}`"),
        }
    }
}
