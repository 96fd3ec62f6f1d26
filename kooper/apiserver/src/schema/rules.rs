//! The rules of `x-kubernetes-validations`: compiled with the types of the schema, and evaluated for objects.

mod data;
mod declare;
mod path;
mod ratchet;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use self::data::data;
use self::declare::declare;
use self::path::field_path;
use self::ratchet::{Ratchet, element};
use crate::cause::Cause;
use crate::cel::{self, Program, Type};

const RULES: &str = "x-kubernetes-validations";

/// The rules of a schema and of what is below it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    own: Vec<Rule>,
    properties: BTreeMap<String, Rules>,
    items: Option<Box<Rules>>,
    others: Option<Box<Rules>>,
    all_of: Vec<Rules>,
}

#[derive(Debug)]
struct Rule {
    /// Its message, or its source, by which errors name it.
    name: String,
    program: Result<Program, String>,
    message: String,
    message_program: Option<Program>,
    reason: Option<String>,
    field_path: Option<String>,
    optional_old_self: bool,
}

/// Compiles the rules of a schema; `None` where it has none.
pub(super) fn compile(schema: &Value) -> Option<Rules> {
    Rules::of(schema, schema, true)
}

/// The mistakes in the rules of a schema; `path` is the schema's.
pub(crate) fn mistakes(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(schema, true, path, None, &mut causes);
    causes
}

fn rules_of(schema: &Value) -> impl Iterator<Item = &Value> {
    schema[RULES].as_array().into_iter().flatten()
}

/// The variables of a rule.
fn variables(of: &Type, optional_old_self: bool) -> [(&'static str, Type); 2] {
    let old = if optional_old_self { Type::optional(of.clone()) } else { of.clone() };
    [("self", of.clone()), ("oldSelf", old)]
}

/// A rule as an error shows it.
fn shown(rule: &Value) -> Value {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    json!({
        "Rule": text("rule"),
        "Message": text("message"),
        "MessageExpression": text("messageExpression"),
        "Reason": rule["reason"],
        "FieldPath": text("fieldPath"),
        "OptionalOldSelf": rule["optionalOldSelf"],
    })
}

/// Adds the mistakes in the rules of a schema and of what is below it. Below `uncorrelatable` it is not known which
/// value was which before.
fn check(schema: &Value, root: bool, path: &str, uncorrelatable: Option<&str>, causes: &mut Vec<Cause>) {
    let of = schema.get(RULES).map(|_| declare(schema, root));
    for (index, rule) in rules_of(schema).enumerate() {
        let at = format!("{path}.{RULES}[{index}]");
        let Some(Some(of)) = &of else {
            let why = "failed to convert to declType for CEL validation rules";
            causes.push(Cause::other("InternalError", format!("{path}.{RULES}"), format!("Internal error: {why}")));
            break;
        };
        check_rule(rule, schema, of, &at, uncorrelatable, causes);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let embedded = is_embedded(below);
        check(below, embedded, &format!("{path}.properties[{name}]"), uncorrelatable, causes);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let inner =
            if schema["x-kubernetes-list-type"] == "map" { uncorrelatable } else { uncorrelatable.or(Some(path)) };
        check(items, is_embedded(items), &format!("{path}.items"), inner, causes);
    }
    if let Some(others) = schema.get("additionalProperties").filter(|others| others.is_object()) {
        check(others, is_embedded(others), &format!("{path}.additionalProperties"), uncorrelatable, causes);
    }
}

fn check_rule(
    rule: &Value,
    schema: &Value,
    of: &Type,
    at: &str,
    uncorrelatable: Option<&str>,
    causes: &mut Vec<Cause>,
) {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (trimmed, message) = (text("rule").trim(), text("message"));
    let before = causes.len();
    if trimmed.is_empty() {
        causes.push(Cause::required(format!("{at}.rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        causes.push(Cause::invalid(format!("{at}.message"), &rule["message"], "must be non-empty if specified"));
    } else if breaks(message.trim()) {
        causes.push(Cause::invalid(format!("{at}.message"), &rule["message"], "must not contain line breaks"));
    } else if breaks(trimmed) && message.trim().is_empty() {
        causes.push(Cause::required(format!("{at}.message"), "message must be specified if rule contains line breaks"));
    }
    let expression = text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(format!("{at}.messageExpression"), why));
    }
    if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
        causes.push(Cause::not_supported(format!("{at}.reason"), &format!("{reason:?}"), &REASONS));
    }
    let blamed = text("fieldPath");
    let invalid = |why| Cause::invalid(format!("{at}.fieldPath"), &rule["fieldPath"], why);
    if !blamed.is_empty() {
        if blamed.trim().is_empty() {
            causes.push(invalid("must be non-empty if specified"));
        }
        if breaks(blamed) {
            causes.push(invalid("must not contain line breaks"));
        }
        if field_path(blamed, schema).is_none() {
            causes.push(invalid("must be a valid path"));
        }
    }
    if causes.len() > before {
        return;
    }
    let variables = variables(of, rule["optionalOldSelf"] == true);
    match compiled(text("rule"), &variables) {
        Err(why) => causes.push(Cause::invalid(format!("{at}.rule"), &shown(rule), why)),
        Ok(program) => {
            if let Some(Err(why)) = message_program(rule, &variables) {
                causes.push(Cause::invalid(format!("{at}.messageExpression"), &shown(rule), why));
            }
            let optional = rule.get("optionalOldSelf").filter(|optional| optional.is_boolean());
            match (program.uses_old_self(), uncorrelatable, optional) {
                (true, Some(path), _) => {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
                    causes.push(Cause::invalid(format!("{at}.rule"), &rule["rule"], why));
                }
                (false, _, Some(optional)) => {
                    let why = "may not be set if oldSelf is not used in rule";
                    causes.push(Cause::invalid(format!("{at}.optionalOldSelf"), optional, why));
                }
                _ => {}
            }
        }
    }
}

/// The reasons that a rule may have.
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

fn compiled(source: &str, variables: &[(&str, Type)]) -> Result<Program, String> {
    let program = Program::compile(source, variables)?;
    if *program.of() == Type::Bool { Ok(program) } else { Err("cel expression must evaluate to a bool".to_owned()) }
}

fn message_program(rule: &Value, variables: &[(&str, Type)]) -> Option<Result<Program, String>> {
    let source = rule["messageExpression"].as_str().filter(|source| !source.is_empty())?;
    let program = Program::compile(source, variables);
    Some(match program {
        Ok(program) if *program.of() == Type::String => Ok(program),
        Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
        Err(why) => Err(format!("messageExpression {why}")),
    })
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
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
        let old = self.old.and_then(|old| element(self.schema, value, old));
        let ratchet = self.ratchet.element(self.schema, value);
        Self { schema, root: is_embedded(schema), value, old, path, ratchet }
    }
}

impl Rule {
    fn of(rule: &Value, schema: &Value, of: Option<&Type>) -> Self {
        let text = |key: &str| rule[key].as_str().unwrap_or_default().trim();
        let optional_old_self = rule["optionalOldSelf"] == true;
        let variables = of.map(|of| variables(of, optional_old_self));
        let missing = || Err("failed to convert to declType for CEL validation rules".to_owned());
        let source = rule["rule"].as_str().unwrap_or_default();
        let name = if text("message").is_empty() { text("rule") } else { text("message") };
        Self {
            name: name.to_owned(),
            program: variables.as_ref().map_or_else(missing, |known| compiled(source, known)),
            message: if text("message").is_empty() { format!("failed rule: {name}") } else { name.to_owned() },
            message_program: variables.and_then(|known| message_program(rule, &known)).and_then(Result::ok),
            reason: rule["reason"].as_str().map(ToOwned::to_owned),
            field_path: rule["fieldPath"].as_str().and_then(|path| field_path(path, schema)),
            optional_old_self,
        }
    }
}

impl Rules {
    /// The rules that `from` has for values of the schema; both are the same but in `allOf`.
    fn of(from: &Value, schema: &Value, root: bool) -> Option<Self> {
        let of = from.get(RULES).and_then(|_| declare(schema, root));
        let below = |from: &Value, key: &str| {
            let (from, schema) = (from.get(key)?, schema.get(key)?);
            Self::of(from, schema, is_embedded(schema)).map(Box::new)
        };
        let mut properties = BTreeMap::new();
        for (name, from) in from["properties"].as_object().into_iter().flatten() {
            let schema = &schema["properties"][name];
            properties.extend(Self::of(from, schema, is_embedded(schema)).map(|rules| (name.clone(), rules)));
        }
        let all_of = from["allOf"].as_array().into_iter().flatten();
        let rules = Self {
            own: rules_of(from).map(|rule| Rule::of(rule, schema, of.as_ref())).collect(),
            properties,
            items: below(from, "items"),
            others: below(from, "additionalProperties"),
            all_of: all_of.filter_map(|from| Self::of(from, schema, root)).collect(),
        };
        let none = rules.own.is_empty()
            && rules.properties.is_empty()
            && rules.items.is_none()
            && rules.others.is_none()
            && rules.all_of.is_empty();
        (!none).then_some(rules)
    }

    /// The rules that an object violates.
    pub(super) fn validate(&self, schema: &Value, object: &Value, present: Option<&Value>) -> Vec<Cause> {
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
