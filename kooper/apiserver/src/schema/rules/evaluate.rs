//! The evaluation of rules for objects.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;

use super::data::data;
use super::ratchet::Ratchet;
use super::{Rule, Rules, is_embedded};
use crate::cause::Cause;
use crate::cel::{self, CANCELLED, Program};
use crate::patch::format::quote;
use crate::schema::validate::same_item;

/// The most that the rules of an object may cost together.
const BUDGET: u64 = 10_000_000;

/// The rules that an object violates.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub(crate) causes: Vec<Cause>,
    /// Violations of what an update leaves as it was.
    pub(crate) warnings: Vec<String>,
}

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
        let old = self.old.and_then(|old| same_item(self.schema, value, old.as_array()?));
        let ratchet = self.ratchet.element(self.schema, value);
        Self { schema, root: is_embedded(schema), value, old, path, ratchet }
    }
}

impl Rules {
    /// The rules that an object violates.
    pub(in crate::schema) fn validate(&self, schema: &Value, object: &Value, present: Option<&Value>) -> Violations {
        let mut evaluation = Evaluation { found: Violations::default(), budget: BUDGET };
        let ratchet = Ratchet::of(object, present);
        // Where it breaks, a cause says so.
        let _ = evaluation.walk(self, Place { schema, root: true, value: object, old: present, path: "", ratchet });
        evaluation.found
    }
}

struct Evaluation {
    found: Violations,
    /// The rest of [`BUDGET`].
    budget: u64,
}

/// No further rule is evaluated when the budget is spent.
type Walked = ControlFlow<()>;

impl Evaluation {
    fn walk(&mut self, rules: &Rules, place: Place<'_>) -> Walked {
        if place.value.is_null() {
            return Walked::Continue(());
        }
        self.evaluate_all(rules, place)?;
        match place.value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    if let Some(rules) = &rules.others {
                        let path = format!("{}[{key}]", place.path);
                        let schema = &place.schema["additionalProperties"];
                        self.walk(rules, place.member(schema, key, value, &path))?;
                    }
                    if let Some(rules) = rules.properties.get(key) {
                        let dot = if place.path.is_empty() { "" } else { "." };
                        let path = format!("{}{dot}{key}", place.path);
                        self.walk(rules, place.member(&place.schema["properties"][key], key, value, &path))?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &rules.items else { return Walked::Continue(()) };
                for (index, value) in items.iter().enumerate() {
                    self.walk(rules, place.item(value, &format!("{}[{index}]", place.path)))?;
                }
            }
            _ => {}
        }
        Walked::Continue(())
    }

    fn evaluate_all(&mut self, rules: &Rules, place: Place<'_>) -> Walked {
        if rules.own.is_empty() {
            return Walked::Continue(());
        }
        if self.budget == 0 {
            return self.out_of_budget(place);
        }
        let own = data(place.value, place.schema, place.root);
        let before = place.old.map(|old| data(old, place.schema, place.root));
        for rule in &rules.own {
            let optional = rule.optional_old_self.then(|| cel::Value::Optional(before.clone().map(Arc::new)));
            let mut variables = vec![("self".to_owned(), own.clone())];
            variables.extend(optional.or_else(|| before.clone()).map(|value| ("oldSelf".to_owned(), value)));
            self.evaluate(rule, variables, place)?;
        }
        Walked::Continue(())
    }

    fn evaluate(&mut self, rule: &Rule, variables: Vec<(String, cel::Value)>, place: Place<'_>) -> Walked {
        let (kind, name) = (&place.schema["type"], &rule.name);
        let invalid = |why| Cause::invalid(place.path, kind, why);
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                self.found.causes.push(invalid(format!("rule compile error: {why}")));
                return Walked::Continue(());
            }
        };
        if program.uses_old_self() && place.old.is_none() && !rule.optional_old_self {
            return Walked::Continue(());
        }
        let (result, cost) = program.evaluate(variables.clone());
        let Some(left) = self.budget.checked_sub(cost) else { return self.out_of_budget(place) };
        self.budget = left;
        match result {
            Ok(cel::Value::Bool(true)) => return Walked::Continue(()),
            Ok(_) => {}
            Err(why) if why == CANCELLED => {
                self.found.causes.push(invalid(format!(
                    "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
                )));
                return Walked::Break(());
            }
            Err(why) if why.starts_with("no such overload") => {
                self.found.causes.push(invalid(format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: \
                     {name}"
                )));
                return Walked::Continue(());
            }
            Err(why) => {
                self.found.causes.push(invalid(format!("{why} evaluating rule: {name}")));
                return Walked::Continue(());
            }
        }
        let message = match &rule.message_program {
            Some(program) => self.message(rule, program, variables),
            None => Ok(None),
        };
        let (cause, walked) = match message {
            Ok(message) => {
                (rule.violation(place, message.unwrap_or_else(|| rule.message.clone())), Walked::Continue(()))
            }
            Err(why) => (Cause::invalid(rule.reported_path(place.path), kind, why), Walked::Break(())),
        };
        // An unchanged value may violate rules that are newer.
        if !program.uses_old_self() && place.ratchet.is_unchanged() {
            self.found.warnings.push(cause.text());
        } else {
            self.found.causes.push(cause);
        }
        walked
    }

    fn out_of_budget(&mut self, place: Place<'_>) -> Walked {
        let why = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.found.causes.push(Cause::invalid(place.path, &place.schema["type"], why));
        Walked::Break(())
    }

    /// The message that an expression makes, if it makes a proper one. The error is that it costs too much.
    fn message(
        &mut self,
        rule: &Rule,
        program: &Program,
        variables: Vec<(String, cel::Value)>,
    ) -> Result<Option<String>, String> {
        const LONGEST: usize = 5 * 1024;
        let (result, cost) = program.evaluate(variables);
        let left = self.budget.checked_sub(cost);
        self.budget = left.ok_or(
            "messageExpression evaluation failed due to running out of cost budget, no further validation rules will \
             be run",
        )?;
        match result {
            Ok(cel::Value::String(text)) => {
                let text = text.trim();
                let fits = !text.is_empty() && text.len() <= LONGEST && !text.contains('\n');
                Ok(fits.then(|| text.to_owned()))
            }
            Err(why) if why == CANCELLED => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                quote(&rule.message_expression)
            )),
            _ => Ok(None),
        }
    }
}

impl Rule {
    /// The field that a violation is about.
    fn reported_path(&self, path: &str) -> String {
        match (&self.field_path, path.is_empty()) {
            (Some(below), true) => below.clone(),
            (Some(below), false) if below.starts_with('[') => format!("{path}{below}"),
            (Some(below), false) => format!("{path}.{below}"),
            (None, _) => path.to_owned(),
        }
    }

    fn violation(&self, place: Place<'_>, message: String) -> Cause {
        let reported_path = self.reported_path(place.path);
        match self.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(reported_path, message),
            Some("FieldValueRequired") => Cause::required(reported_path, message),
            Some("FieldValueDuplicate") => Cause::duplicate(reported_path, place.value),
            // The API shows scalars only.
            _ if matches!(place.schema["type"].as_str(), Some("object" | "array")) => {
                Cause::other("FieldValueInvalid", reported_path, format!("Invalid value: {message}"))
            }
            _ => Cause::invalid(reported_path, place.value, message),
        }
    }
}
