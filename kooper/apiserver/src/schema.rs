//! One version of a custom resource definition.

mod columns;
mod default;
mod prune;
pub(crate) mod published;
mod rules;
mod validate;

use serde_json::Value;

pub(crate) use self::columns::Column;
pub(crate) use self::published::Typed;
pub(crate) use self::rules::{Candidate, mistakes as rule_mistakes};
use crate::cause::Cause;

/// Drops what the schema of a built-in kind does not know, and names it.
pub(crate) fn prune_builtin(object: &mut Value, definition: &Value) -> Vec<String> {
    if definition.is_object() { prune::prune(object, definition) } else { Vec::new() }
}

/// A number without a fraction is written as a whole one, whatever it was.
pub(crate) fn whole_numbers(value: &mut Value) {
    /// Up to here every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT) {
                *value = Value::from(float as i64);
            }
        }
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// A schema that refers to another one is that one.
fn resolved(schema: &Value) -> &Value {
    referred(schema).unwrap_or(schema)
}

/// The definition that a schema refers to.
fn referred(schema: &Value) -> Option<&'static Value> {
    let reference = schema.get("$ref").or_else(|| schema["allOf"].get(0).and_then(|schema| schema.get("$ref")));
    let name = reference.and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
    name.and_then(published::definition)
}

/// One version of a custom resource definition.
pub(crate) struct Definition {
    /// The version in which objects are stored.
    pub(crate) storage_version: String,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Column>,
    /// The structural schema.
    schema: Value,
    rules: Option<rules::Rules>,
    typed: Typed,
    has_defaults: bool,
    /// The store's version since which the schema is as it is.
    since: u64,
    preserves_unknown: bool,
}

/// Replicas are a count.
fn validate_count(object: &Value, path: &str) -> Option<Cause> {
    let count = path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, key| value.get(key))?;
    match count.as_i64() {
        Some(number) if number < 0 => Some(Cause::invalid(path, count, "should be a non-negative integer")),
        Some(number) if number > i64::from(i32::MAX) => {
            Some(Cause::invalid(path, count, format!("should be less than or equal to {}", i32::MAX)))
        }
        Some(_) => None,
        None => {
            let (found, name) = match count {
                Value::String(text) => (text.clone(), "string"),
                Value::Bool(flag) => (flag.to_string(), "bool"),
                other => (other.to_string(), "float64"),
            };
            let why = format!("{path} accessor error: {found} is of the type {name}, expected int64");
            Some(Cause::invalid(path, &0.into(), why))
        }
    }
}

/// Rules are not evaluated for an object that violates one of these: its values may not be of the declared types.
fn blocks_rules(cause: &Cause) -> bool {
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    BLOCKING.contains(&cause.reason)
}

/// Where an object has what its scale shows.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) specified: String,
    pub(crate) current: String,
    pub(crate) selector: Option<String>,
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definition").field("storage_version", &self.storage_version).finish_non_exhaustive()
    }
}

impl Definition {
    /// Reads one version of a definition; `since` is the store's version.
    pub(crate) fn read(definition: &Value, version: &Value, since: u64) -> Self {
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        let stored = versions.filter(|version| version["storage"] == true).find_map(|version| version["name"].as_str());
        let subresources = &version["subresources"];
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let scale = subresources["scale"].as_object().map(|scale| ScalePaths {
            specified: scale.get("specReplicasPath").and_then(text).unwrap_or_default(),
            current: scale.get("statusReplicasPath").and_then(text).unwrap_or_default(),
            selector: scale.get("labelSelectorPath").and_then(text),
        });
        let schema = version["schema"]["openAPIV3Schema"].clone();
        Self {
            storage_version: stored.unwrap_or_default().to_owned(),
            has_status: subresources["status"].is_object(),
            scale,
            columns: Column::read_all(version),
            has_defaults: default::has_any(&schema),
            preserves_unknown: definition["spec"]["preserveUnknownFields"] == true,
            rules: rules::compile(&schema),
            typed: Typed::custom(&schema),
            schema,
            since,
        }
    }

    pub(crate) fn typed(&self) -> &Typed {
        &self.typed
    }

    /// Drops what the schema does not know, and names it.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        if self.preserves_unknown { Vec::new() } else { prune::prune(object, &self.schema) }
    }

    pub(crate) fn fill_defaults(&self, object: &mut Value) {
        if self.has_defaults {
            default::fill(object, &self.schema);
        }
    }

    /// Objects that are older than the schema may lack its defaults.
    pub(crate) fn fills_defaults_of(&self, version: u64) -> bool {
        self.has_defaults && version < self.since
    }

    /// The rules of the schema that an object violates, or its status alone. What is unchanged and violates rules in CEL
    /// is worth a warning.
    pub(crate) fn validate(
        &self,
        object: &Value,
        present: Option<&Value>,
        status: bool,
        warnings: &mut Vec<String>,
    ) -> Vec<Cause> {
        let mut causes = if status {
            self.validate_status(object, present)
        } else {
            let mut causes = validate::validate(object, present, &self.schema);
            causes.extend(self.scale.as_ref().and_then(|scale| validate_count(object, &scale.specified)));
            causes
        };
        causes.extend(self.scale.as_ref().and_then(|scale| validate_count(object, &scale.current)));
        warnings.extend(self.validate_rules(object, present, &mut causes));
        causes
    }

    /// The demands beyond types and limits: lists without repeated items, and rules in CEL. Returns warnings.
    pub(crate) fn validate_rules(
        &self,
        object: &Value,
        present: Option<&Value>,
        causes: &mut Vec<Cause>,
    ) -> Vec<String> {
        // Lists with repeated items stay as they are.
        let repeated = |object: &Value| validate::repeated(object, &self.schema);
        if present.is_none_or(|present| repeated(present).is_empty()) {
            causes.extend(repeated(object));
        }
        let Some(rules) = &self.rules else { return Vec::new() };
        if causes.iter().any(blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            causes.push(Cause::invalid("<nil>", &Value::Null, why));
            return Vec::new();
        }
        let mut object = object.clone();
        whole_numbers(&mut object);
        let found = rules.validate(&self.schema, &object, present);
        causes.extend(found.causes);
        found.warnings
    }

    /// The rules that a status violates; their messages name no more of a path than what is below the status.
    fn validate_status(&self, object: &Value, present: Option<&Value>) -> Vec<Cause> {
        let Some(status) = object.get("status") else { return Vec::new() };
        let Some(schema) = self.schema["properties"].get("status") else { return Vec::new() };
        let before = present.and_then(|present| present.get("status"));
        let mut causes = validate::validate(status, before, schema);
        for cause in &mut causes {
            cause.field = if cause.field.is_empty() { "status".to_owned() } else { format!("status.{}", cause.field) };
        }
        causes
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Objects that one version has written are complete for the other.
    pub(crate) fn same_schema(&self, other: &Self) -> bool {
        self.schema == other.schema
    }

    /// Counts as no younger than a definition with the same schema.
    pub(crate) fn keep_age(&mut self, other: &Self) {
        self.since = other.since;
    }
}
