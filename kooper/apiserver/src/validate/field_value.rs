//! A field of an object: its value, its path, and the rules that it may violate.

use std::cell::RefCell;
use std::collections::HashSet;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::form;
use crate::quantity::Quantity;

/// The violations that were found.
pub(crate) type Causes = RefCell<Vec<Cause>>;

/// A field of an object, with its path. Absent values are null.
#[derive(Clone)]
pub(crate) struct FieldValue<'a> {
    pub(crate) value: &'a Value,
    path: String,
    causes: &'a Causes,
}

const NOTHING: &Value = &Value::Null;

impl<'a> FieldValue<'a> {
    pub(crate) fn root(value: &'a Value, causes: &'a Causes) -> Self {
        Self { value, path: String::new(), causes }
    }

    fn below(&self, value: Option<&'a Value>, path: String) -> Self {
        Self { value: value.unwrap_or(NOTHING), path, causes: self.causes }
    }

    /// A member by name; dots lead further down.
    pub(crate) fn field(&self, path: &str) -> Self {
        let value = path.split('.').try_fold(self.value, |value, key| value.get(key));
        let path = if self.path.is_empty() { path.to_owned() } else { format!("{}.{path}", self.path) };
        self.below(value, path)
    }

    /// The same place under another path: the real server's paths are not always those of the object.
    pub(crate) fn named(&self, path: String) -> Self {
        self.below(Some(self.value), path)
    }

    /// Checks another value as if it were at this place.
    pub(crate) fn nested(&self, value: &Value, check: impl FnOnce(&FieldValue<'_>)) {
        let causes = Causes::default();
        check(&FieldValue { value, path: self.path.clone(), causes: &causes });
        self.causes.borrow_mut().extend(causes.into_inner());
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| self.below(Some(value), format!("{}[{index}]", self.path))).collect()
    }

    pub(crate) fn entries(&self) -> Vec<(&'a str, Self)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), self.below(Some(value), format!("{}[{key}]", self.path)))).collect()
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns whether the value is absent, `""`, `[]` or `{}`.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(crate) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    pub(crate) fn quantity(&self) -> Option<Quantity> {
        match self.value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        }
    }

    pub(crate) fn add(&self, cause: Cause) {
        self.causes.borrow_mut().push(cause);
    }

    /// Returns the number of violations found so far.
    pub(crate) fn count(&self) -> usize {
        self.causes.borrow().len()
    }

    /// Reports a value that is not set. Returns whether it is set.
    pub(crate) fn required(&self, why: &str) -> bool {
        if self.is_empty() {
            self.require(why);
        }
        !self.is_empty()
    }

    pub(crate) fn require(&self, why: &str) {
        self.add(Cause::required(&self.path, why));
    }

    pub(crate) fn require_if(&self, missing: bool, why: &str) {
        if missing {
            self.require(why);
        }
    }

    pub(crate) fn invalid(&self, why: impl std::fmt::Display) {
        self.add(Cause::invalid(&self.path, self.value, why));
    }

    pub(crate) fn invalid_if(&self, violated: bool, why: &str) {
        if violated {
            self.invalid(why);
        }
    }

    /// Invalid, with a value that is not the one at this place.
    pub(crate) fn invalid_as(&self, value: &Value, why: impl std::fmt::Display) {
        self.add(Cause::invalid(&self.path, value, why));
    }

    /// Invalid, with a value that is already in the form in which it is shown.
    pub(crate) fn invalid_shown(&self, shown: &str, why: impl std::fmt::Display) {
        let message = format!("Invalid value: {shown}: {why}");
        self.add(Cause::other("FieldValueInvalid", &self.path, message));
    }

    pub(crate) fn forbidden(&self, why: impl std::fmt::Display) {
        self.add(Cause::forbidden(&self.path, why));
    }

    pub(crate) fn forbidden_if(&self, violated: bool, why: &str) {
        if violated {
            self.forbidden(why);
        }
    }

    pub(crate) fn forbidden_if_set(&self, why: &str) {
        self.forbidden_if(self.is_set(), why);
    }

    pub(crate) fn duplicate(&self) {
        self.add(Cause::duplicate(&self.path, self.value));
    }

    pub(crate) fn duplicate_of(&self, value: &Value) {
        self.add(Cause::duplicate(&self.path, value));
    }

    /// No other place with these texts has the same.
    pub(crate) fn unique(&self, texts: &mut HashSet<&'a str>) {
        if !texts.insert(self.text()) {
            self.duplicate();
        }
    }

    pub(crate) fn not_found(&self) {
        self.add(Cause::other("FieldValueNotFound", &self.path, format!("Not found: {:?}", self.text())));
    }

    pub(crate) fn not_supported(&self, supported: &[&str]) {
        let value = if self.is_set() { self.value.to_string() } else { "\"\"".to_owned() };
        self.add(Cause::not_supported(&self.path, &value, supported));
    }

    /// Where it is set, it is one of these.
    pub(crate) fn one_of(&self, supported: &[&str]) {
        if !self.is_empty() && !supported.contains(&self.text()) {
            self.not_supported(supported);
        }
    }

    /// Where it is set, it has a form.
    pub(crate) fn form(&self, check: form::Check) {
        if !self.is_empty() {
            self.form_even_if_empty(check);
        }
    }

    pub(crate) fn form_even_if_empty(&self, check: form::Check) {
        let text = self.text();
        for why in check(text) {
            self.invalid_as(&json!(text), why);
        }
    }

    /// A name that is required and has a form.
    pub(crate) fn name(&self, check: form::Check) {
        if self.required("") {
            self.form(check);
        }
    }

    pub(crate) fn not_negative(&self) {
        self.invalid_if(self.number().is_some_and(|number| number < 0), "must be greater than or equal to 0");
    }

    pub(crate) fn between(&self, least: i64, most: i64) {
        if self.number().is_some_and(|number| number < least || number > most) {
            self.invalid(format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// An update leaves it as it is.
    pub(crate) fn immutable(&self, present: &Value) {
        self.invalid_if(self.value != present, "field is immutable");
    }
}
