//! Which objects of a kind a cache has.

use std::collections::BTreeSet;
use std::fmt;

use kooper_grammar::selector::{FieldSelector, Requirement, Selector};
use parking_lot::Mutex;
use serde_json::Value;

use super::retriever::Scope;
use crate::object::Object;
use crate::object::key::ObjectKey;

/// The objects of a kind that a cache has, or that an argument may get. By default
/// all of them, in the namespaces of the controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selected {
    /// The label selector.
    pub labels: Selector,
    /// The field selector.
    pub fields: FieldSelector,
    /// The only names; empty for all.
    pub names: BTreeSet<String>,
    /// The only namespaces; empty for those of the controller.
    pub namespaces: BTreeSet<String>,
}

/// Why an object is not selected.
#[derive(Debug)]
pub enum SelectorMismatch<'a> {
    /// This label, with its value in the object.
    Label(&'a Requirement, Option<&'a str>),
    /// This field: whether it must be equal, and to which value.
    Field(&'a str, bool, &'a str),
    /// Its name.
    Name,
}

impl Selected {
    /// The same selection for as long as the process runs. Selections are constants
    /// of a program, so there are few. `None` is for all objects.
    pub fn interned(self) -> Option<&'static Self> {
        static KNOWN: Mutex<BTreeSet<&'static Selected>> = Mutex::new(BTreeSet::new());
        if self == Self::default() {
            return None;
        }
        let mut known = KNOWN.lock();
        if let Some(same) = known.get(&self) {
            return Some(same);
        }
        let new: &'static Self = Box::leak(Box::new(self));
        known.insert(new);
        Some(new)
    }

    /// Returns `true` if labels, fields or names limit the objects.
    #[must_use]
    pub fn hides(&self) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty() && self.names.is_empty())
    }

    /// The names that a role can be limited to; empty for all.
    pub fn role_names(&self) -> Vec<String> {
        if self.names.is_empty() {
            return self.fields.terms().find_map(exact_name).into_iter().map(str::to_owned).collect();
        }
        self.names.iter().cloned().collect()
    }

    /// The scopes of the watches of these objects: one for each namespace and name.
    pub(crate) fn scopes(&self, scope: &Scope, namespaces: &[String]) -> Vec<Scope> {
        let own: Vec<String> = self.namespaces.iter().cloned().collect();
        let namespaces = if own.is_empty() { namespaces } else { &own };
        let text = |selector: &dyn fmt::Display| Some(selector.to_string()).filter(|text| !text.is_empty());
        let scope = Scope { labels: text(&self.labels), fields: text(&self.fields), ..scope.clone() };
        if self.names.is_empty() {
            return scope.in_each(namespaces);
        }
        let of_name = |name: &String| {
            let named = format!("metadata.name={name}");
            let fields = scope.fields.iter().fold(named, |all, fields| format!("{all},{fields}"));
            Scope { fields: Some(fields), ..scope.clone() }
        };
        self.names.iter().map(of_name).flat_map(|scope| scope.in_each(namespaces)).collect()
    }

    /// Returns `true` if an object matches that was read from the API server.
    pub fn selects(&self, object: &Object) -> bool {
        if !self.hides() {
            return true;
        }
        let value: Value = object.decode().unwrap_or_default();
        self.first_miss(&value, true).is_none()
    }

    /// Returns `true` if the object with this key can match: its name and namespace are selected.
    #[must_use]
    pub fn admits(&self, key: &ObjectKey) -> bool {
        let namespace = key.namespace().unwrap_or_default();
        (self.names.is_empty() || self.names.contains(key.name()))
            && (self.namespaces.is_empty() || self.namespaces.contains(namespace))
    }

    /// Why an object does not match. The defaults of the API server are missing in
    /// one that is not `stored`: a field that it lacks may match.
    #[must_use]
    pub fn first_miss<'a>(&'a self, object: &'a Value, stored: bool) -> Option<SelectorMismatch<'a>> {
        let metadata = &object["metadata"];
        if !self.names.is_empty() && !self.names.contains(metadata["name"].as_str().unwrap_or_default()) {
            return Some(SelectorMismatch::Name);
        }
        let label = |requirement: &Requirement| metadata["labels"].get(requirement.key()).and_then(Value::as_str);
        let mut labels = self.labels.requirements().iter();
        if let Some(missed) = labels.find(|requirement| !requirement.matches(label(requirement))) {
            return Some(SelectorMismatch::Label(missed, label(missed)));
        }
        let misses = |(field, equal, wanted): &(&str, bool, &str)| match field_of(object, field) {
            Some(value) => (value == *wanted) != *equal,
            // The value of a field that is not set is empty, or false.
            None => stored && matches!(*wanted, "" | "false") != *equal,
        };
        self.fields.terms().find(misses).map(|(field, equal, wanted)| SelectorMismatch::Field(field, equal, wanted))
    }
}

impl Scope {
    /// The name of the only object, if there is a single one. A role can be limited
    /// to it.
    pub(crate) fn only_name(&self) -> Option<String> {
        let fields = FieldSelector::parse(self.fields.as_deref()?).ok()?;
        fields.terms().find_map(exact_name).map(str::to_owned)
    }
}

/// The name that a term of a field selector requires.
fn exact_name<'a>((field, equal, value): (&str, bool, &'a str)) -> Option<&'a str> {
    (equal && field == "metadata.name" && !value.is_empty()).then_some(value)
}

/// The value at the path of a field selector.
fn field_of(object: &Value, path: &str) -> Option<String> {
    match path.split('.').try_fold(object, |value, name| value.get(name))? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    }
}

/// `labels app=shop, fields type=Opaque`, for metrics and messages.
impl fmt::Display for Selected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        let parts = [
            ("labels", self.labels.to_string()),
            ("fields", self.fields.to_string()),
            ("names", join(&self.names)),
            ("namespaces", join(&self.namespaces)),
        ];
        let mut first = true;
        for (what, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
            let comma = if std::mem::take(&mut first) { "" } else { ", " };
            write!(f, "{comma}{what} {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selected(labels: &str, fields: &str, names: &[&str]) -> Selected {
        Selected {
            labels: Selector::parse(labels).unwrap(),
            fields: FieldSelector::parse(fields).unwrap(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            namespaces: BTreeSet::new(),
        }
    }

    fn object(rest: &Value) -> Object {
        let mut value = json!({"metadata": {"name": "a", "labels": {"app": "shop"}}});
        value["type"] = rest.clone();
        Object::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_object_is_selected_by_all_of_labels_fields_and_names() {
        let opaque = object(&json!("Opaque"));
        for (labels, fields, names, expected) in [
            ("", "", &[][..], true),
            ("app=shop", "type=Opaque", &["a", "b"], true),
            ("app=web", "", &[], false),
            ("!app", "", &[], false),
            ("app", "type!=Opaque", &[], false),
            ("", "metadata.name=a", &[], true),
            ("", "metadata.name=b", &[], false),
            ("", "", &["b"], false),
            ("", "spec.unschedulable=false,spec.nodeName=", &[], true),
            ("", "spec.unschedulable=true", &[], false),
            ("", "spec.nodeName!=", &[], false),
        ] {
            assert_eq!(selected(labels, fields, names).selects(&opaque), expected, "{labels} {fields} {names:?}");
        }
    }

    #[test]
    fn a_field_that_an_object_to_be_applied_lacks_may_match() {
        let body = json!({"metadata": {"name": "a"}});
        let opaque = selected("", "type=Opaque", &[]);
        assert!(opaque.first_miss(&body, false).is_none());
        assert!(opaque.first_miss(&body, true).is_some());
        assert!(opaque.first_miss(&json!({"type": "other"}), false).is_some());
    }

    #[test]
    fn each_name_and_namespace_has_a_watch() {
        let both = Selected {
            namespaces: ["x".to_owned(), "y".to_owned()].into(),
            ..selected("b, a=1", "type=Opaque", &["m", "n"])
        };
        let scopes = both.scopes(&Scope::default(), &["z".to_owned()]);
        let shown: Vec<_> = scopes
            .iter()
            .map(|scope| (scope.namespace.as_deref().unwrap(), scope.fields.as_deref().unwrap()))
            .collect();
        let (m, n) = ("metadata.name=m,type=Opaque", "metadata.name=n,type=Opaque");
        assert_eq!(shown, [("x", m), ("y", m), ("x", n), ("y", n)]);
        assert!(scopes.iter().all(|scope| scope.labels.as_deref() == Some("a=1,b")));
        assert_eq!(scopes[0].only_name().as_deref(), Some("m"));
        assert_eq!(
            selected("", "", &[]).scopes(&Scope::default(), &["z".to_owned()])[0].namespace.as_deref(),
            Some("z")
        );
    }

    #[test]
    fn equal_selections_are_one() {
        let one = selected("a=1, b", "", &[]).interned().unwrap();
        let other = selected("b,a==1", "", &[]).interned().unwrap();
        assert!(std::ptr::eq(one, other));
        assert!(Selected::default().interned().is_none());
        assert_eq!(one.to_string(), "labels a=1,b");
    }

    #[test]
    fn only_an_exact_name_limits_a_role() {
        assert_eq!(selected("", "metadata.name=a", &[]).role_names(), ["a"]);
        assert_eq!(selected("", "", &["b", "a"]).role_names(), ["a", "b"]);
        for fields in ["metadata.name!=a", "metadata.name=", "type=a"] {
            assert!(selected("", fields, &[]).role_names().is_empty(), "{fields}");
        }
    }
}
