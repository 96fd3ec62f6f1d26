//! The rules of a definition: what is wrong with them, and what they may cost.

use serde_json::{Value, json};

use super::declare::{Declared, declare};
use super::path::field_path;
use super::{RULES, compiled, is_embedded, message_program, rules_of, variables};
use crate::cause::Cause;

/// The most that a rule may cost, for all values of an object together.
const BUDGET: u64 = 10_000_000;
/// The most that all rules of a schema may cost.
const TOTAL_BUDGET: u64 = 100_000_000;
/// So many of the most expensive rules are named when a schema costs too much, if they have a hundredth of its budget.
const NAMED: usize = 4;

/// The reasons that a rule may have.
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// A schema of a definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) path: &'a str,
    /// Rules are compiled with the types of a schema that is right.
    pub(crate) is_structural: bool,
    /// An update leaves it as it is: each of its rules may cost what it costs.
    pub(crate) is_unchanged: bool,
}

/// The mistakes in the rules of a schema.
pub(crate) fn mistakes(candidate: Candidate<'_>) -> Vec<Cause> {
    let mut inspection = Inspection { candidate, total: 0, expensive: Vec::new() };
    let place = Place {
        schema: candidate.schema,
        root: true,
        path: candidate.path,
        uncorrelatable: None,
        cardinality: Some(1),
    };
    let Mistakes { form, rules } = inspection.inspect(place);
    let mut causes = form;
    causes.extend(rules);
    causes.extend(inspection.excess());
    causes
}

/// A schema within that of a definition.
#[derive(Clone, Copy)]
struct Place<'a> {
    schema: &'a Value,
    root: bool,
    path: &'a str,
    /// The list below which it is not known which value was which before.
    uncorrelatable: Option<&'a str>,
    /// The number of its values in an object, if the lists and maps around it are limited.
    cardinality: Option<u64>,
}

#[derive(Default)]
struct Mistakes {
    /// Those that are found without a compiler. Rules around them are not compiled.
    form: Vec<Cause>,
    rules: Vec<Cause>,
}

struct Inspection<'a> {
    candidate: Candidate<'a>,
    total: u64,
    /// The fields with the most expensive expressions, and what these cost.
    expensive: Vec<(String, u64)>,
}

impl Inspection<'_> {
    fn inspect(&mut self, place: Place<'_>) -> Mistakes {
        let (schema, path) = (place.schema, place.path);
        let mut found = Mistakes::default();
        let mut below = |schema: &Value, path: String, uncorrelatable: Option<&str>| {
            let cardinality = place.cardinality.zip(most_parts(place.schema)).map(|(one, all)| one.saturating_mul(all));
            let inner = Place { schema, root: is_embedded(schema), path: &path, uncorrelatable, cardinality };
            let Mistakes { form, rules } = self.inspect(inner);
            found.form.extend(form);
            found.rules.extend(rules);
        };
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            below(schema, format!("{path}.properties[{name}]"), place.uncorrelatable);
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            let correlated = schema["x-kubernetes-list-type"] == "map";
            let uncorrelatable = place.uncorrelatable.or((!correlated).then_some(path));
            below(items, format!("{path}.items"), uncorrelatable);
        }
        if let Some(others) = schema.get("additionalProperties").filter(|others| others.is_object()) {
            below(others, format!("{path}.additionalProperties"), place.uncorrelatable);
        }
        for (index, rule) in rules_of(schema).enumerate() {
            check_form(rule, schema, &format!("{path}.{RULES}[{index}]"), &mut found.form);
        }
        if found.form.is_empty() && self.candidate.is_structural && rules_of(schema).next().is_some() {
            self.compile(place, &mut found.rules);
        }
        found
    }

    /// Compiles the rules of a schema, which is well formed.
    fn compile(&mut self, place: Place<'_>, causes: &mut Vec<Cause>) {
        let Some(declared) = declare(place.schema, place.root) else {
            let why = "Internal error: internal error: failed to construct type information for \
                       x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            causes.push(Cause::other("InternalError", format!("{}.{RULES}", place.path), why));
            return;
        };
        for (index, rule) in rules_of(place.schema).enumerate() {
            self.compile_rule(rule, &declared, place, &format!("{}.{RULES}[{index}]", place.path), causes);
        }
    }

    fn compile_rule(&mut self, rule: &Value, of: &Declared, place: Place<'_>, at: &str, causes: &mut Vec<Cause>) {
        let variables = variables(&of.of, rule["optionalOldSelf"] == true);
        let field = format!("{at}.rule");
        let program = compiled(rule["rule"].as_str().unwrap_or_default(), &variables, &of.extent);
        match &program {
            Ok(program) => {
                let times = place.cardinality.unwrap_or_else(|| of.extent.most_in_request());
                self.charge(&field, "estimated rule cost", program.cost().saturating_mul(times), causes);
                let field = format!("{at}.messageExpression");
                match message_program(rule, &variables, &of.extent) {
                    Some(Ok(message)) => {
                        self.charge(&field, "estimated messageExpression cost", message.cost(), causes);
                    }
                    Some(Err(why)) => causes.push(invalid(field, rule, &why)),
                    None => {}
                }
            }
            Err(why) => causes.push(invalid(field, rule, why)),
        }
        let optional = rule.get("optionalOldSelf").filter(|optional| optional.is_boolean());
        match (program.is_ok_and(|program| program.uses_old_self()), place.uncorrelatable, optional) {
            (true, Some(path), _) => {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
                causes.push(Cause::invalid(format!("{at}.rule"), &rule["rule"], why));
            }
            (false, _, Some(optional)) => {
                let why = "may not be set if oldSelf is not used in rule";
                causes.push(Cause::invalid(format!("{at}.optionalOldSelf"), optional, why));
            }
            _ => {}
        }
    }

    fn charge(&mut self, field: &str, what: &str, cost: u64, causes: &mut Vec<Cause>) {
        if cost > BUDGET && !self.candidate.is_unchanged {
            causes.push(Cause::forbidden(field, excess(what, cost, BUDGET)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_BUDGET / 100 {
            self.expensive.push((field.to_owned(), cost));
        }
    }

    /// The causes of a schema whose rules cost too much together.
    fn excess(mut self) -> Vec<Cause> {
        if self.total <= TOTAL_BUDGET {
            return Vec::new();
        }
        self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let named = self.expensive.into_iter().take(NAMED).map(|(field, _)| Cause::forbidden(field, why));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let all = Cause::forbidden(self.candidate.path, excess(what, self.total, TOTAL_BUDGET));
        named.chain([all]).collect()
    }
}

/// The number of parts that a value of a schema may have; `None` where it is not limited.
fn most_parts(schema: &Value) -> Option<u64> {
    let limit = |key: &str| schema[key].as_i64().map(|most| u64::try_from(most).unwrap_or(0));
    match schema["type"].as_str() {
        Some("object") if schema.get("additionalProperties").is_some() => limit("maxProperties"),
        Some("array") => limit("maxItems"),
        _ => Some(1),
    }
}

fn excess(what: &str, cost: u64, budget: u64) -> String {
    let factor = cost as f64 / budget as f64;
    let shown = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// A mistake in an expression of a rule, which is shown as Go's type is encoded.
fn invalid(field: String, rule: &Value, why: &str) -> Cause {
    let text = |key: &str| json!(rule[key].as_str().unwrap_or_default());
    let members = [
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", rule["reason"].clone()),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", rule["optionalOldSelf"].clone()),
    ];
    let members: Vec<_> = members.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
    Cause::other("FieldValueInvalid", field, format!("Invalid value: {{{}}}: {why}", members.join(",")))
}

fn check_form(rule: &Value, schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (trimmed, message) = (text("rule").trim(), text("message"));
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
}
