//! Comparison of two objects, which finds the fields that a write changed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::fields::FieldSet;
use super::super::literal::same;
use super::super::path::PathElement;
use super::super::schema::{Form, Node};
use super::{item, items, keys, members};

/// The fields in which two objects differ. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Those that only the former has.
    pub(crate) removed: FieldSet,
    /// Those that both have, with different values.
    pub(crate) modified: FieldSet,
    /// Those that only the latter has.
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// The comparison with each of its sets changed.
    pub(crate) fn map(self, change: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self { removed: change(self.removed), modified: change(self.modified), added: change(self.added) }
    }
}

/// Compares two objects that fit the schema.
pub(crate) fn compare(node: &Node<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.visit(node, Some(old), Some(new));
    walk.found
}

struct Walk {
    path: Vec<PathElement>,
    found: Comparison,
}

impl Walk {
    fn visit(&mut self, node: &Node<'_>, old: Option<&Value>, new: Option<&Value>) {
        let (old_form, new_form) = (node.form(old), node.form(new));
        let leaf = if new.is_none() {
            self.visit_form(old_form, node, old, new)
        } else {
            // Where the form changes, the values differ in both forms.
            if old.is_some() && old_form != new_form {
                self.visit_form(old_form, node, old, new);
            }
            self.visit_form(new_form, node, old, new)
        };
        match (leaf, old, new) {
            (false, None, Some(_)) => self.found.added.insert(&self.path),
            (false, Some(_), None) => self.found.removed.insert(&self.path),
            _ => {}
        }
    }

    /// Compares the values in one form. Returns whether they were compared as a whole.
    fn visit_form(&mut self, form: Form, node: &Node<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match form {
            Form::Map => {
                let (left, right) = (members(old), members(new));
                if node.is_atomic_map() || (left.is_empty() && right.is_empty()) {
                    return self.leaf(old, new);
                }
                for name in keys(left, right) {
                    if let Some(child) = node.child(name) {
                        self.path.push(PathElement::field(name));
                        self.visit(&child, left.get(name), right.get(name));
                        self.path.pop();
                    }
                }
                false
            }
            Form::List => {
                let (left, right) = (items(old), items(new));
                if node.is_atomic_list() || (left.is_empty() && right.is_empty()) {
                    return self.leaf(old, new);
                }
                self.visit_items(node, left, right);
                false
            }
            Form::Scalar(_) => self.leaf(old, new),
            Form::Nothing => false,
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, Some(_)) => self.found.added.insert(&self.path),
            (Some(_), None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn visit_items(&mut self, node: &Node<'_>, old: &[Value], new: &[Value]) {
        let Some(child) = node.item() else { return };
        let mut pairs: BTreeMap<PathElement, [Vec<&Value>; 2]> = BTreeMap::new();
        for (side, values) in [old, new].into_iter().enumerate() {
            for value in values {
                if let Ok(element) = item::path_element(node, value) {
                    pairs.entry(element).or_default()[side].push(value);
                }
            }
        }
        for (element, [old, new]) in pairs {
            self.path.push(element);
            match (old.as_slice(), new.as_slice()) {
                (old @ ([] | [_]), new @ ([] | [_])) => self.visit(&child, old.first().copied(), new.first().copied()),
                // Items that repeat are compared as if they were one value.
                ([_, _, ..], [_, _, ..]) => {
                    if old.len() != new.len() || old.iter().zip(&new).any(|(old, new)| !same(old, new)) {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], new) => {
                    if let Some(new) = new.first() {
                        self.visit(&child, None, Some(new));
                    }
                    self.found.removed.insert(&self.path);
                }
                (old, _) => {
                    if let Some(old) = old.first() {
                        self.visit(&child, Some(old), None);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}
