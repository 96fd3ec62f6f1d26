//! The evaluation of rules for objects.

use std::sync::Arc;

use serde_json::Value;

use super::data::data;
use super::ratchet::{Ratchet, element};
use super::{Rule, Rules, is_embedded};
use crate::cause::Cause;
use crate::cel::{self, Program};

/// A value with its place in an object, and what it was before.
#[derive(Clone, Copy)]
struct Place<'a> {
    schema: &'a Value,
    /// The value is a whole object, which has a kind and metadata.
    root: bool,
    value: &'a Value,
    old: Option<&'a Value>,
    path: &'a str,
    ratchet: Ratchet<'a>,
}

impl<'a> Place<'a> {
    fn member(self, schema: &'a Value, key: &str, value: &'a Value, path: &'a str) -> Self {
        let old = self.old.and_then(|old| old.get(key));
        Self { schema, root: is_embedded(schema), value, old, path, ratchet: self.ratchet.key(key) }
    }

    fn item(self, value: &'a Value, path: &'a str) -> Self {
        let schema = &self.schema["items"];
        let old = self.old.and_then(|old| element(self.schema, value, old));
        let ratchet = self.ratchet.element(self.schema, value);
        Self { schema, root: is_embedded(schema), value, old, path, ratchet }
    }
}

impl Rules {
    /// The rules that an object violates.
    pub(in crate::schema) fn validate(&self, schema: &Value, object: &Value, present: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let ratchet = Ratchet::of(object, present);
        self.walk(Place { schema, root: true, value: object, old: present, path: "", ratchet }, &mut causes);
        causes
    }

    fn walk(&self, place: Place<'_>, causes: &mut Vec<Cause>) {
        for rules in &self.all_of {
            rules.walk(place, causes);
        }
        if !self.own.is_empty() && !place.value.is_null() {
            self.evaluate(place, causes);
        }
        match place.value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    if let Some(rules) = self.properties.get(key) {
                        let dot = if place.path.is_empty() { "" } else { "." };
                        let path = format!("{}{dot}{key}", place.path);
                        rules.walk(place.member(&place.schema["properties"][key], key, value, &path), causes);
                    }
                    if let Some(rules) = &self.others {
                        let path = format!("{}[{key}]", place.path);
                        rules.walk(place.member(&place.schema["additionalProperties"], key, value, &path), causes);
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return };
                for (index, value) in items.iter().enumerate() {
                    rules.walk(place.item(value, &format!("{}[{index}]", place.path)), causes);
                }
            }
            _ => {}
        }
    }

    fn evaluate(&self, Place { schema, root, value, old, path, ratchet }: Place<'_>, causes: &mut Vec<Cause>) {
        let kind = &schema["type"];
        let own = data(value, schema, root);
        let before = old.map(|old| data(old, schema, root));
        for rule in &self.own {
            let program = match &rule.program {
                Ok(program) => program,
                Err(why) => {
                    causes.push(Cause::invalid(path, kind, format!("rule compile error: {why}")));
                    continue;
                }
            };
            if program.uses_old_self() && before.is_none() && !rule.optional_old_self {
                continue;
            }
            let old_self = match &before {
                value if rule.optional_old_self => Some(cel::Value::Optional(value.clone().map(Arc::new))),
                value => value.clone(),
            };
            let mut variables = vec![("self".to_owned(), own.clone())];
            variables.extend(old_self.map(|value| ("oldSelf".to_owned(), value)));
            let why = match program.evaluate(variables.clone()) {
                Ok(cel::Value::Bool(true)) => continue,
                Ok(_) => None,
                Err(why) => Some(why),
            };
            if let Some(why) = why {
                let name = &rule.name;
                let why = if why.starts_with("no such overload") {
                    format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for \
                         rule: {name}"
                    )
                } else if why.starts_with("operation cancelled") {
                    format!(
                        "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                    )
                } else {
                    format!("{why} evaluating rule: {name}")
                };
                causes.push(Cause::invalid(path, kind, why));
                continue;
            }
            // An unchanged value may violate rules that are newer.
            if !program.uses_old_self() && ratchet.is_unchanged() {
                continue;
            }
            let message = rule.message_program.as_ref().and_then(|program| message(program, variables));
            causes.push(rule.violation(schema, value, path, message.unwrap_or_else(|| rule.message.clone())));
        }
    }
}

impl Rule {
    fn violation(&self, schema: &Value, value: &Value, path: &str, message: String) -> Cause {
        let blamed = match (&self.field_path, path.is_empty()) {
            (Some(below), true) => below.clone(),
            (Some(below), false) if below.starts_with('[') => format!("{path}{below}"),
            (Some(below), false) => format!("{path}.{below}"),
            (None, _) => path.to_owned(),
        };
        match self.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(blamed, message),
            Some("FieldValueRequired") => Cause::required(blamed, message),
            Some("FieldValueDuplicate") => Cause::duplicate(blamed, value),
            // The API shows scalars only.
            _ if matches!(schema["type"].as_str(), Some("object" | "array")) => {
                Cause::other("FieldValueInvalid", blamed, format!("Invalid value: {message}"))
            }
            _ => Cause::invalid(blamed, value, message),
        }
    }
}

/// The message that an expression makes, if it makes a proper one.
fn message(program: &Program, variables: Vec<(String, cel::Value)>) -> Option<String> {
    const LONGEST: usize = 5 * 1024;
    match program.evaluate(variables) {
        Ok(cel::Value::String(text)) => {
            let text = text.trim();
            (!text.is_empty() && text.len() <= LONGEST && !text.contains('\n')).then(|| text.to_owned())
        }
        _ => None,
    }
}
