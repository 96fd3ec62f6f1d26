//! Validation of an object against its schema, as far as merging depends on it.

use serde_json::Value;

use super::super::format;
use super::super::path::PathElement;
use super::super::schema::{Form, Node};
use super::super::types::{ListKind, Scalar};
use super::{Mismatch, Mismatches, item};

/// Checks an object. What is stored may repeat items of a set or a list map,
/// what is applied may not.
///
/// # Errors
///
/// The places where the object contradicts the schema.
pub(crate) fn validate(node: &Node<'_>, value: &Value, allow_duplicates: bool) -> Result<(), Mismatches> {
    let mut walk = Walk { path: String::new(), found: Mismatches::default(), allow_duplicates };
    walk.visit(node, value);
    if walk.found.0.is_empty() { Ok(()) } else { Err(walk.found) }
}

struct Walk {
    path: String,
    found: Mismatches,
    allow_duplicates: bool,
}

impl Walk {
    fn visit(&mut self, node: &Node<'_>, value: &Value) {
        match (node.form(Some(value)), value) {
            (_, Value::Null) => {}
            (Form::Map, Value::Object(map)) => {
                for (name, value) in map {
                    let Some(child) = node.child(name) else {
                        self.below(&PathElement::field(name), |walk| walk.report("field not declared in schema"));
                        // The real server reports the first of an object, too.
                        break;
                    };
                    self.below(&PathElement::field(name), |walk| walk.visit(&child, value));
                }
            }
            (Form::List, Value::Array(items)) => self.visit_items(node, items),
            (Form::Map, value) => self.report(format!("expected map, got {}", printed(value))),
            (Form::List, value) => self.report(format!("expected list, got {}", printed(value))),
            (Form::Scalar(scalar), value) => {
                if let Some(message) = wrong_scalar(scalar, value) {
                    self.report(message);
                }
            }
            (Form::Nothing, _) => self.report("schema error: invalid atom: inlined"),
        }
    }

    fn visit_items(&mut self, node: &Node<'_>, items: &[Value]) {
        let Some(child) = node.item() else { return };
        let mut seen = std::collections::BTreeSet::new();
        for (index, value) in items.iter().enumerate() {
            let element = if *node.list_kind() == ListKind::Atomic {
                PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
            } else {
                match item::path_element(node, value) {
                    Ok(element) => element,
                    Err(message) => return self.report(format!("element {index}: {message}")),
                }
            };
            self.below(&element, |walk| walk.visit(&child, value));
            let text = element.to_string();
            if !seen.insert(element) && !self.allow_duplicates {
                self.report(format!("duplicate entries for key {text}"));
            }
        }
    }

    fn below(&mut self, element: &PathElement, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&element.to_string());
        visit(self);
        self.path.truncate(length);
    }

    fn report(&mut self, message: impl Into<String>) {
        self.found.0.push(Mismatch { path: self.path.clone(), message: message.into() });
    }
}

/// Returns the error for a value that doesn't fit a scalar of the schema, if any.
pub(super) fn wrong_scalar(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Bool(_) | Value::Number(_) | Value::String(_)) => None,
        (Scalar::Numeric, value) => Some(format!("expected numeric (int or float), got {}", format::type_name(value))),
        (Scalar::String, value) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", format::syntax(value)))
        }
        (Scalar::Boolean, value) => Some(format!("expected boolean, got {}", printed(value))),
        (Scalar::Any, value) => Some(format!("expected any scalar, got {}", printed(value))),
    }
}

/// The value within the structure in which the real server prints it.
fn printed(value: &Value) -> String {
    format!("&{{{}}}", format::display(value))
}
