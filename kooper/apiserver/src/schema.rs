//! One version of a custom resource definition.

mod columns;
mod default;
mod format;
mod prune;
pub(crate) mod published;
mod repeated;
mod rules;
mod validate;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

pub(crate) use self::columns::Column;
pub(crate) use self::published::Typed;
pub(crate) use self::rules::{Candidate, mistakes as rule_mistakes};
use crate::cause::Cause;
use crate::patch::format::{display, type_name};

/// Drops what the schema of a built-in kind does not know, and names it.
pub(crate) fn prune_builtin(object: &mut Value, definition: &Value) -> Vec<String> {
    if definition.is_object() { prune::prune(object, definition) } else { Vec::new() }
}

/// The rules of a schema that its own default violates. `path` is that of the schema.
pub(crate) fn default_mistakes(schema: &Value, path: &str) -> Vec<Cause> {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else { return Vec::new() };
    let mut causes = Vec::new();
    // A default is a part of an object: fields such as `kind` are fields of the schema as any other.
    let schema_around = json!({"type": "object", "properties": {"default": schema}});
    let mut around = json!({"default": default});
    if !prune::prune(&mut around, &schema_around).is_empty() {
        causes.push(Cause::invalid(format!("{path}.default"), default, "must not have unknown fields"));
    }
    let mut violated = validate::validate(default, None, schema);
    for cause in &mut violated {
        cause.field = match cause.field.as_str() {
            "" | "<nil>" => format!("{path}.default"),
            below => format!("{path}.default.{below}"),
        };
    }
    if violated.is_empty()
        && let Some(rules) = rules::compile(&schema_around)
    {
        let mut around = json!({"default": default});
        whole_numbers(&mut around);
        violated = rules.validate(&schema_around, &around, None).causes;
        for cause in &mut violated {
            cause.field = format!("{path}.{}", cause.field);
        }
    }
    causes.extend(violated);
    causes
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
    published::reference(schema).and_then(published::definition)
}

/// One version of a custom resource definition.
pub(crate) struct Definition {
    /// The version in which objects are stored.
    pub(crate) storage_version: String,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Column>,
    /// The warning for each request, if the version is deprecated.
    pub(crate) deprecation: Option<String>,
    /// The structural schema.
    schema: Value,
    /// Those of the versions that have another one, in which objects may be stored.
    others: Vec<(String, Value)>,
    rules: Option<rules::Rules>,
    typed: Typed,
    has_defaults: bool,
    /// The store's version since which the schema is as it is.
    since: u64,
    /// It was deleted, and its objects go first.
    is_ending: AtomicBool,
}

/// Replicas are a count.
fn validate_count(object: &Value, path: &str) -> Option<Cause> {
    let count = nested(object, path)?;
    match count.as_i64() {
        Some(number) if number < 0 => Some(Cause::invalid(path, count, "should be a non-negative integer")),
        Some(number) if number > i64::from(i32::MAX) => {
            Some(Cause::invalid(path, count, format!("should be less than or equal to {}", i32::MAX)))
        }
        Some(_) => None,
        None => Some(misplaced(path, count, &0.into(), "int64")),
    }
}

/// The selector of the pods is a string, as that of a Scale is.
fn validate_selector(object: &Value, path: &str) -> Option<Cause> {
    let selector = nested(object, path).filter(|selector| !selector.is_string())?;
    Some(misplaced(path, selector, &"".into(), "string"))
}

/// The value at a path, such as `.status.replicas`.
fn nested<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, key| value.get(key))
}

/// A value of another type than the scale of the object has.
fn misplaced(path: &str, found: &Value, zero: &Value, expected: &str) -> Cause {
    let (shown, of) = (display(found), type_name(found));
    Cause::invalid(path, zero, format!("{path} accessor error: {shown} is of the type {of}, expected {expected}"))
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
        let versions = || definition["spec"]["versions"].as_array().into_iter().flatten();
        let stored = versions().find(|version| version["storage"] == true);
        let subresources = &version["subresources"];
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let scale = subresources["scale"].as_object().map(|scale| ScalePaths {
            specified: scale.get("specReplicasPath").and_then(text).unwrap_or_default(),
            current: scale.get("statusReplicasPath").and_then(text).unwrap_or_default(),
            selector: scale.get("labelSelectorPath").and_then(text),
        });
        let schema = version["schema"]["openAPIV3Schema"].clone();
        Self {
            storage_version: stored.and_then(|stored| text(&stored["name"])).unwrap_or_default(),
            has_status: subresources["status"].is_object(),
            scale,
            columns: Column::read_all(version),
            deprecation: None,
            has_defaults: default::has_any(&schema),
            rules: rules::compile(&schema),
            typed: Typed::custom(&schema),
            others: versions()
                .filter_map(|other| Some((text(&other["name"])?, other["schema"]["openAPIV3Schema"].clone())))
                .filter(|(_, other)| other.is_object() && *other != schema)
                .collect(),
            schema,
            since,
            is_ending: AtomicBool::new(false),
        }
    }

    /// From now on no object is created.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    pub(crate) fn typed(&self) -> &Typed {
        &self.typed
    }

    /// Drops what the schema does not know, and names it.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(object, &self.schema)
    }

    /// Drops the nulls that stand for nothing.
    pub(crate) fn drop_nulls(&self, object: &mut Value) {
        prune::drop_nulls(object, &self.schema);
    }

    pub(crate) fn fill_defaults(&self, object: &mut Value) {
        if self.has_defaults {
            default::fill(object, &self.schema);
        }
    }

    /// Objects that are older than the schema, or stored in another version, are not read as they are stored.
    pub(crate) fn adapts(&self, version: u64, own: bool) -> bool {
        version < self.since || !own && !self.others.is_empty()
    }

    /// Makes an object that is stored in a version one that is read: first by the schema of that version, whose defaults
    /// it has then, and by this one.
    pub(crate) fn adapt(&self, object: &mut Value, stored: &str) {
        let converted = self.conform(object, stored);
        drop(self.prune(object));
        self.drop_nulls(object);
        if !converted {
            self.fill_defaults(object);
        }
    }

    /// Makes an object one of the version in which it is stored.
    pub(crate) fn store(&self, object: &mut Value) {
        self.conform(object, &self.storage_version);
    }

    /// Prunes and fills an object by the schema of another version, if that has another one.
    fn conform(&self, object: &mut Value, version: &str) -> bool {
        let Some((_, schema)) = self.others.iter().find(|(name, _)| name == version) else { return false };
        drop(prune::prune(object, schema));
        prune::drop_nulls(object, schema);
        default::fill(object, schema);
        true
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
        if let Some(scale) = &self.scale {
            causes.extend(validate_count(object, &scale.current));
            causes.extend(scale.selector.as_deref().and_then(|path| validate_selector(object, path)));
        }
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
        let repeated = |object: &Value| repeated::check(object, &self.schema);
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
            cause.field = match cause.field.as_str() {
                "" | "<nil>" => "status".to_owned(),
                field => format!("status.{field}"),
            };
        }
        causes
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Objects that one version has written are complete for the other.
    pub(crate) fn same_schema(&self, other: &Self) -> bool {
        self.schema == other.schema && self.others == other.others
    }

    /// Counts as no younger than a definition with the same schema.
    pub(crate) fn keep_age(&mut self, other: &Self) {
        self.since = other.since;
    }
}
