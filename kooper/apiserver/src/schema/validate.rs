//! Validation of an object against a structural schema, with the API's messages.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::format;
use crate::cause::Cause;
use crate::cel;

/// The rules of the schema that an object violates. What an update leaves as it is may violate them.
pub(super) fn validate(object: &Value, present: Option<&Value>, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(object, present, schema, "", &mut causes);
    // Schemas that restrict a value may have the same rules as its own.
    let mut known = HashSet::new();
    causes.retain(|cause| known.insert(cause.text()));
    causes
}

/// Checks a value; `old` is its previous value, if that can be determined. Returns the number of checks, as the real
/// server counts them to compare alternatives.
fn check(value: &Value, old: Option<&Value>, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> usize {
    let before = causes.len();
    let checks = check_new(value, old, schema, path, causes);
    if causes.len() > before && old == Some(value) {
        causes.truncate(before);
    }
    checks
}

fn check_new(value: &Value, old: Option<&Value>, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> usize {
    let misfit = misfit(value, schema).filter(|_| !value.is_null() || schema["nullable"] != true);
    if let Some((wanted, found)) = misfit {
        let why = format!("{path} in body must be of type {wanted}: \"{found}\"");
        causes.push(Cause::type_invalid(path, &json!(found), why));
    }
    let fits = usize::from(misfit.is_none());
    check_enum(value, schema, path, causes);
    // Alternatives have no type, and the real server checks the type of those that have a format.
    let format = usize::from(format::of(schema).is_some());
    let checks = match value {
        // The real server checks nothing else, and null equals none of the values, not even null.
        Value::Null => return fits,
        Value::Object(_) => 1 + check_object(value, old, schema, path, causes),
        Value::Array(items) => 2 + check_array(items, old, schema, path, causes),
        Value::String(text) => {
            check_text(text, schema, path, causes);
            1 + format
        }
        Value::Number(_) => {
            check_number(value, schema, path, causes);
            2
        }
        Value::Bool(_) => 0,
    };
    4 + format * (1 + fits) + checks + check_combinations(value, old, schema, path, causes)
}

/// The type of a value; a number that Go's integers cannot hold is not whole.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type that a value should have, and the one that it has, where these are not the same.
fn misfit<'a>(value: &Value, schema: &'a Value) -> Option<(&'a str, &'static str)> {
    let found = type_of(value);
    let wanted = match schema["x-kubernetes-int-or-string"] == true {
        true => "integer,string",
        false => schema["type"].as_str()?,
    };
    let fits = match wanted {
        "number" => matches!(found, "number" | "integer"),
        "integer" => found == "integer" || is_whole(value),
        "integer,string" => matches!(found, "integer" | "string") || is_whole(value),
        wanted => wanted == found,
    };
    if fits {
        return None;
    }
    match (format::of(schema), found) {
        (None, _) | (_, "null") => Some((wanted, found)),
        // The real server lets lists pass where strings have a format.
        (Some(_), "array" | "string") if !matches!(wanted, "number" | "integer") => None,
        (Some(_), "array" | "string") => Some((wanted, found)),
        // It speaks of formats then, and of values only numbers have one.
        (Some(format), "integer") => Some((format, "int64")),
        (Some(format), "number") => Some((format, "float64")),
        (Some(format), _) => Some((format, "")),
    }
}

/// A float that counts as an integer: those beyond have no exact neighbors.
fn is_whole(value: &Value) -> bool {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    value.as_f64().is_some_and(|number| number.fract() == 0.0 && (-EXACT..EXACT).contains(&number))
}

fn check_enum(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(allowed) = schema["enum"].as_array() else { return };
    if allowed.contains(value) && !value.is_null() {
        return;
    }
    let shown: Vec<_> =
        allowed.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)).collect();
    let shown: Vec<_> = shown.iter().map(String::as_str).collect();
    causes.push(Cause::not_supported(path, &value.to_string(), &shown));
}

fn check_object(value: &Value, old: Option<&Value>, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> usize {
    let Value::Object(entries) = value else { return 0 };
    let mut checks = 0;
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !entries.contains_key(key) {
            causes.push(Cause::required(below(key), ""));
        }
    }
    for (key, value) in entries {
        let others = || schema.get("additionalProperties").filter(|schema| schema.is_object());
        if let Some(schema) = schema["properties"].get(key).or_else(others) {
            // The former type of an object is not known: both states are read in the version of the request.
            let is_type = path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !is_type).and_then(|old| old.get(key));
            checks += check(value, old, schema, &below(key), causes);
        }
    }
    if let Some(most) = schema["maxProperties"].as_u64().filter(|most| entries.len() as u64 > *most) {
        let message = format!("Too many: {}: must have at most {most} items", entries.len());
        causes.push(Cause::other("FieldValueTooMany", path, message));
    }
    if let Some(least) = schema["minProperties"].as_u64().filter(|least| (entries.len() as u64) < *least) {
        let why = format!("{path} in body should have at least {least} properties");
        causes.push(Cause::invalid(path, &json!(entries.len()), why));
    }
    checks
}

fn check_array(items: &[Value], old: Option<&Value>, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> usize {
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| items.len() as u64 > *most) {
        let message = format!("Too many: {}: must have at most {most} items", items.len());
        causes.push(Cause::other("FieldValueTooMany", path, message));
    }
    if let Some(least) = schema["minItems"].as_u64().filter(|least| (items.len() as u64) < *least) {
        let why = format!("{path} in body should have at least {least} items");
        causes.push(Cause::invalid(path, &json!(items.len()), why));
    }
    let Some(below) = schema.get("items") else { return 0 };
    let mut checks = 0;
    for (index, item) in items.iter().enumerate() {
        let old = old.and_then(|old| same_item(schema, item, old.as_array()?));
        checks += check(item, old, below, &format!("{path}[{index}]"), causes);
    }
    checks
}

/// The members that identify the items of a list, if it is a list of that kind.
pub(super) fn keys(schema: &Value) -> Vec<&str> {
    if schema["x-kubernetes-list-type"] != "map" {
        return Vec::new();
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
    keys.filter_map(Value::as_str).collect()
}

/// The item that has the same keys as another one; only items with keys can be found again.
pub(super) fn same_item<'a>(schema: &Value, item: &Value, items: &'a [Value]) -> Option<&'a Value> {
    let keys = Some(keys(schema)).filter(|keys| !keys.is_empty())?;
    items.iter().find(|other| keys.iter().all(|key| other[*key] == item[*key]))
}

fn check_text(text: &str, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let length = text.chars().count() as u64;
    let value = json!(text);
    // The real server reports the first of these alone.
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        causes.push(Cause::other("FieldValueTooLong", path, message));
    } else if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        causes.push(Cause::invalid(path, &value, format!("{path} in body should be at least {least} chars long")));
    } else if let Some(pattern) = schema["pattern"].as_str()
        // A pattern that is none was refused with its definition.
        && cel::pattern(pattern).is_some_and(|pattern| !pattern.is_match(text))
    {
        causes.push(Cause::invalid(path, &value, format!("{path} in body should match '{pattern}'")));
    }
    if let Some(format) = format::of(schema).filter(|format| !format::has(text, format)) {
        causes.push(Cause::type_invalid(path, &value, format!("{path} in body must be of type {format}: {value}")));
    }
}

fn check_number(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(number) = value.as_f64() else { return };
    check_range(value, "Checked", schema, path, causes);
    if let Some(step) = limit(value, "multipleOf", "MultipleOf", schema, path, causes) {
        if step <= 0.0 {
            let why = format!("factor MultipleOf declared for {path} must be positive: {step}");
            causes.push(Cause::invalid(path, &json!(step as i64), why));
        } else if !is_multiple(value, number, step) {
            let why = format!("{path} in body should be a multiple of {}", schema["multipleOf"]);
            causes.push(Cause::invalid(path, value, why));
        }
    }
    if let Some(least) = limit(value, "minimum", "Minimum boundary", schema, path, causes) {
        let exclusive = schema["exclusiveMinimum"] == true;
        if number < least || exclusive && number <= least {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            let why = format!("{path} in body should be {than} {}", schema["minimum"]);
            causes.push(Cause::invalid(path, value, why));
        }
    }
    if let Some(most) = limit(value, "maximum", "Maximum boundary", schema, path, causes) {
        let exclusive = schema["exclusiveMaximum"] == true;
        if number > most || exclusive && number >= most {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            let why = format!("{path} in body should be {than} {}", schema["maximum"]);
            causes.push(Cause::invalid(path, value, why));
        }
    }
}

/// Returns whether a number is a multiple of a step. Of fractions, the real server accepts what is a little more than
/// one, as few of them are exact.
fn is_multiple(value: &Value, number: f64, step: f64) -> bool {
    const ERROR: f64 = 1e-9;
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    if let Some(number) = value.as_i64()
        && step.fract() == 0.0
    {
        return number % step as i64 == 0;
    }
    let times = if step < 1.0 { 1.0 / step * number } else { number / step };
    let whole = times.trunc();
    times.abs() <= LARGEST && (times == whole || whole > 0.0 && (times - whole) / (times + whole) < ERROR)
}

/// A limit of numbers. The real server compares a whole number with a whole limit.
fn limit(value: &Value, key: &str, what: &str, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Option<f64> {
    let limit = schema[key].as_f64()?;
    let held = check_range(&schema[key], what, schema, path, causes);
    Some(if held && type_of(value) == "integer" { limit.trunc() } else { limit })
}

/// Numbers, and their limits, are in the range of the schema's type and format; others have a cause without a field.
fn check_range(number: &Value, what: &str, schema: &Value, path: &str, causes: &mut Vec<Cause>) -> bool {
    let (of, format) = (schema["type"].as_str().unwrap_or_default(), format::of(schema));
    let held = format::holds(number, of, format);
    if !held {
        let format = format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
        let why = format!("{what} value must be of type {of} {format} in {path}");
        causes.push(Cause::invalid("<nil>", &json!(""), why));
    }
    held
}

/// Checks the schemas that restrict a value.
fn check_combinations(
    value: &Value,
    old: Option<&Value>,
    schema: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) -> usize {
    let tried = |schema: &Value| {
        let mut causes = Vec::new();
        (check_new(value, old, schema, path, &mut causes), causes)
    };
    let all_tried = |key: &str| {
        let all: Vec<_> = schema[key].as_array().into_iter().flatten().map(tried).collect();
        let valid = all.iter().filter(|(_, causes)| causes.is_empty()).count();
        (all, valid)
    };
    let violated = |what: &str| Cause::invalid("<nil>", &json!(""), format!("{path:?} must {what}"));
    let mut checks = 0;
    let (any, valid) = all_tried("anyOf");
    if valid == 0 && !any.is_empty() {
        causes.push(violated("validate at least one schema (anyOf)"));
    }
    checks += choose(any, causes);
    let (one, valid) = all_tried("oneOf");
    let only = "validate one and only one schema (oneOf). Found";
    match valid {
        0 if one.is_empty() => {}
        0 => causes.push(violated(&format!("{only} none valid"))),
        1 => {}
        several => causes.push(violated(&format!("{only} {several} valid alternatives"))),
    }
    if valid < 2 {
        checks += choose(one, causes);
    }
    let (all, valid) = all_tried("allOf");
    if valid < all.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        causes.push(violated(&format!("validate all the schemas (allOf){none}")));
    }
    for (more, mut found) in all {
        checks += more;
        causes.append(&mut found);
    }
    if schema.get("not").is_some_and(|schema| tried(schema).1.is_empty()) {
        causes.push(violated("not validate the schema (not)"));
    }
    checks
}

/// Adds the causes of the first alternative that a value fits, which has none, or else of the one with the most checks.
/// Returns its checks.
fn choose(tried: Vec<(usize, Vec<Cause>)>, causes: &mut Vec<Cause>) -> usize {
    let rank = |(checks, causes): &(usize, Vec<Cause>)| if causes.is_empty() { usize::MAX } else { *checks };
    let Some((checks, mut found)) = tried.into_iter().rev().max_by_key(rank) else { return 0 };
    causes.append(&mut found);
    checks
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::validate;

    #[test]
    fn a_pattern_means_what_it_means_in_go() {
        let fits = |text: &str, pattern: &str| {
            validate(&json!(text), None, &json!({"type": "string", "pattern": pattern})).is_empty()
        };
        assert!(fits("3", r"^\d$") && !fits("\u{663}", r"^\d$"), "digits are those of ASCII");
        assert!(fits("a{b", "^a{b$") && !fits("ab", "^a{b$"), "a brace may be a character");
        assert!(fits("a-.b", r"^[\w-.]+$") && !fits("a+b", r"^[\w-.]+$"), "a hyphen behind a class is a character");
        assert!(fits("a b", r"^[a\ b]+$") && !fits("a_b", r"^[a\ b]+$"), "a space may be escaped");
        assert!(fits("a", r"a\B|a") && !fits("b", r"a\B|a"));
    }

    #[test]
    fn a_value_that_was_too_large_for_an_alternative_before_may_stay_so() {
        let size = json!({"properties": {"size": {"maximum": 3}}, "required": ["size"]});
        let schema = json!({"properties": {"spec": {"anyOf": [{"required": ["name"]}, size]}}});
        let (former, new) = (json!({"spec": {"size": 5, "name": "a"}}), json!({"spec": {"size": 5}}));
        assert!(validate(&new, Some(&former), &schema).is_empty());
        assert!(!validate(&new, None, &schema).is_empty());
    }

    #[test]
    fn null_is_no_value_of_an_enum() {
        let causes = |schema: Value| {
            let causes = validate(&Value::Null, None, &schema);
            causes.iter().map(crate::cause::Cause::text).collect::<Vec<_>>()
        };
        let nullable = |allowed: Value| json!({"type": "string", "nullable": true, "enum": allowed});
        let expected = "Unsupported value: null: supported values: \"small\", \"large\"";
        assert_eq!(causes(nullable(json!(["small", "large"]))), [expected]);
        assert_eq!(causes(nullable(json!(["small", null]))).len(), 1);
        assert_eq!(causes(json!({"type": "string", "nullable": true})), [""; 0]);
    }

    #[test]
    fn a_schema_restricts_the_name_and_the_type_of_an_object() {
        let object = |size: u8| json!({"kind": "Shop", "metadata": {"name": "too-long"}, "size": size});
        let name = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}});
        let schema = json!({"properties": {"kind": {"type": "string", "enum": ["Store"]}, "metadata": name}});
        let fields = |present: Option<&Value>| {
            let causes = validate(&object(1), present, &schema);
            causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(None), ["kind", "metadata.name"]);
        assert_eq!(fields(Some(&object(2))), ["kind"], "an unchanged name may be too long");
        assert_eq!(fields(Some(&object(1))), [""; 0]);
    }

    #[test]
    fn a_fraction_is_a_multiple_of_another_one_as_far_as_floats_are_exact() {
        let is_valid = |value: Value, of: &str, step: Value| {
            validate(&value, None, &json!({"type": of, "multipleOf": step})).is_empty()
        };
        for value in [json!(0.3), json!(0.7), json!(1.1), json!(-0.3), json!(0.0)] {
            assert!(is_valid(value.clone(), "number", json!(0.1)), "{value}");
        }
        for value in [json!(0.25), json!(0.05), json!(-0.25)] {
            assert!(!is_valid(value.clone(), "number", json!(0.1)), "{value}");
        }
        assert!(is_valid(json!(7.5), "number", json!(2.5)) && !is_valid(json!(7.6), "number", json!(2.5)));
        let large = 1_000_000_000_000_000_i64;
        assert!(is_valid(json!(large), "integer", json!(5)) && !is_valid(json!(large + 1), "integer", json!(5)));
    }
}
