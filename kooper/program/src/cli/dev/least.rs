//! Generates the smallest object for the schema of a CRD.

use serde_json::{Map, Value, json};

/// The deepest object that is generated.
const DEEPEST: usize = 32;

/// The value of a string that the schema does not restrict.
const WORD: &str = "hello";

/// A field for which no value could be generated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no value was found for `{field}`: {reason}")]
pub(super) struct SampleError {
    field: String,
    reason: &'static str,
}

/// Generates the fields that a schema requires, without metadata and status. Patterns and CEL rules
/// are left to the API server.
pub(super) fn object(schema: &Value) -> Result<Map<String, Value>, SampleError> {
    let mut generator = SampleGenerator { path: Vec::new() };
    let mut schema = merged(schema);
    if let Some(required) = schema["required"].as_array_mut() {
        let others = ["apiVersion", "kind", "metadata", "status"];
        required.retain(|field| field.as_str().is_some_and(|field| !others.contains(&field)));
    }
    match generator.object(&schema, 0)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

/// Generates values. Each `nth` value differs from the others, as items of a set have to.
struct SampleGenerator {
    path: Vec<String>,
}

impl SampleGenerator {
    fn value(&mut self, schema: &Value, nth: usize) -> Result<Value, SampleError> {
        if self.path.len() > DEEPEST {
            return Err(self.error("the schema is too deep"));
        }
        let schema = merged(schema);
        let set = |key: &str| schema[key] == json!(true);
        let written = ["default", "example"].map(|key| &schema[key]).into_iter().find(|value| !value.is_null());
        if let Some(value) = written.filter(|_| nth == 0) {
            return Ok(value.clone());
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<_> = values.iter().filter(|value| !value.is_null()).collect();
            let value = values.get(nth % values.len().max(1));
            return value.map(|value| (*value).clone()).ok_or_else(|| self.error("its `enum` is empty"));
        }
        if set("x-kubernetes-int-or-string") {
            return Ok(json!(nth + 1));
        }
        if set("x-kubernetes-embedded-resource") {
            return Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WORD}}));
        }
        match schema["type"].as_str() {
            Some("array") => self.array(&schema),
            Some("string") => Ok(string(&schema, nth)),
            Some("integer") => self.number(&schema, nth, true),
            Some("number") => self.number(&schema, nth, false),
            Some("boolean") => Ok(json!(nth % 2 == 1)),
            _ => self.object(&schema, nth),
        }
    }

    fn object(&mut self, schema: &Value, nth: usize) -> Result<Value, SampleError> {
        let mut made = Map::new();
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for field in required {
            let of = &schema["properties"][field];
            let of = if of.is_null() { &schema["additionalProperties"] } else { of };
            made.insert(field.to_owned(), self.field(field, of, nth)?);
        }
        let least = size(&schema["minProperties"]);
        for (field, of) in schema["properties"].as_object().into_iter().flatten() {
            if made.len() < least && !made.contains_key(field) {
                made.insert(field.clone(), self.field(field, of, nth)?);
            }
        }
        for key in 1.. {
            if made.len() >= least {
                break;
            }
            let field = format!("key-{key}");
            let value = self.field(&field, &schema["additionalProperties"], key)?;
            made.insert(field, value);
        }
        Ok(Value::Object(made))
    }

    fn field(&mut self, field: &str, schema: &Value, nth: usize) -> Result<Value, SampleError> {
        self.path.push(field.to_owned());
        let made = self.value(schema, nth);
        self.path.pop();
        made
    }

    fn array(&mut self, schema: &Value) -> Result<Value, SampleError> {
        (0..size(&schema["minItems"])).map(|nth| self.field(&format!("[{nth}]"), &schema["items"], nth)).collect()
    }

    fn number(&self, schema: &Value, nth: usize, whole: bool) -> Result<Value, SampleError> {
        let bound = |key: &str| schema[key].as_f64();
        let excluded = |key: &str| schema[key] == json!(true);
        let step = bound("multipleOf").filter(|step| *step > 0.0).unwrap_or(1.0);
        let most = bound("maximum")
            .map_or(f64::INFINITY, |most| if excluded("exclusiveMaximum") { most - step } else { most });
        let mut least = bound("minimum").unwrap_or_else(|| most.min(1.0));
        if bound("minimum").is_some() && excluded("exclusiveMinimum") {
            least += if whole || least + step <= most { step } else { (most - least) / 2.0 };
        }
        // Round up to a multiple.
        let first = if whole || bound("multipleOf").is_some() { (least / step).ceil() * step } else { least };
        let value = first + step * f64::from(u16::try_from(nth).unwrap_or(u16::MAX));
        if value > most {
            return Err(self.error("its limits allow no value"));
        }
        if whole || value.fract() == 0.0 {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the limits of the schema")]
            return Ok(json!(value as i64));
        }
        Ok(json!(value))
    }

    fn error(&self, reason: &'static str) -> SampleError {
        SampleError { field: self.path.join(".").replace(".[", "["), reason }
    }
}

fn string(schema: &Value, nth: usize) -> Value {
    if let Some(format) = schema["format"].as_str().and_then(|format| formatted(format, nth)) {
        return json!(format);
    }
    let (least, most) = (size(&schema["minLength"]), schema["maxLength"].as_u64().map_or(usize::MAX, in_memory));
    let mut word = if nth == 0 { WORD.to_owned() } else { format!("{WORD}-{}", nth + 1) };
    if word.len() > most {
        word = char::from(b'a' + u8::try_from(nth % 26).unwrap_or(0)).to_string().repeat(most.min(1));
    }
    let missing = least.saturating_sub(word.len());
    json!(word + &"o".repeat(missing))
}

/// A string in a format that the API server validates.
fn formatted(format: &str, nth: usize) -> Option<String> {
    let last = nth + 1;
    Some(match format {
        "date-time" | "datetime" => format!("2024-01-01T00:00:{:02}Z", last % 60),
        "date" => format!("2024-01-{:02}", 1 + nth % 28),
        "duration" => format!("{last}s"),
        "byte" => "aGVsbG8=".to_owned(),
        "ipv4" | "ip" => format!("10.0.0.{last}"),
        "ipv6" => format!("fd00::{last:x}"),
        "cidr" => format!("10.{nth}.0.0/16"),
        "mac" => format!("02:00:00:00:00:{:02x}", last % 256),
        "uri" => format!("https://example.com/{last}"),
        "email" => format!("{WORD}-{last}@example.com"),
        "hostname" => format!("{WORD}-{last}.example.com"),
        "uuid" | "uuid4" => format!("00000000-0000-4000-8000-{last:012}"),
        "uuid3" => format!("00000000-0000-3000-8000-{last:012}"),
        "uuid5" => format!("00000000-0000-5000-8000-{last:012}"),
        "password" => WORD.to_owned(),
        _ => return None,
    })
}

fn size(limit: &Value) -> usize {
    limit.as_u64().map_or(0, in_memory)
}

fn in_memory(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// A schema with its `allOf`, and the first of its `anyOf` and of its `oneOf`, merged into it.
fn merged(schema: &Value) -> Value {
    let mut all = schema.clone();
    let of = |key: &str| schema[key].as_array().map(Vec::as_slice).unwrap_or_default();
    for other in of("allOf").iter().chain(of("anyOf").first()).chain(of("oneOf").first()) {
        overlay(&mut all, &merged(other));
    }
    all
}

/// Merges another schema into a schema.
fn overlay(schema: &mut Value, other: &Value) {
    for (key, value) in other.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("required", Value::Array(fields)) => {
                let mut all = schema["required"].as_array().cloned().unwrap_or_default();
                all.extend(fields.iter().filter(|field| !all.contains(field)).cloned().collect::<Vec<_>>());
                schema["required"] = all.into();
            }
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    overlay(&mut schema["properties"][name], property);
                }
            }
            _ => schema[key] = value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(schema: &Value) -> Result<Value, String> {
        let whole = json!({
            "type": "object", "required": ["spec", "metadata"],
            "properties": {"spec": schema, "status": {"type": "object"}, "metadata": {"type": "object"}},
        });
        object(&whole)
            .map(|mut object| object.remove("spec").expect("it is required"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn only_what_is_required_is_there() {
        assert_eq!(object(&json!({"type": "object", "properties": {"spec": {"type": "object"}}})), Ok(Map::new()));
        let schema = json!({
            "type": "object", "required": ["name", "size", "on"],
            "properties": {
                "name": {"type": "string"}, "size": {"type": "integer"}, "on": {"type": "boolean"},
                "note": {"type": "string"},
            },
        });
        assert_eq!(spec(&schema), Ok(json!({"name": "hello", "size": 1, "on": false})));
    }

    #[test]
    fn each_value_is_within_its_limits() {
        for (schema, value) in [
            (json!({"type": "integer", "minimum": 0.0}), json!(0)),
            (json!({"type": "integer", "minimum": 3.0, "exclusiveMinimum": true}), json!(4)),
            (json!({"type": "integer", "maximum": -2.0}), json!(-2)),
            (json!({"type": "integer", "minimum": 5.0, "multipleOf": 4.0}), json!(8)),
            (json!({"type": "number", "minimum": 0.25, "maximum": 0.5}), json!(0.25)),
            (json!({"type": "number", "minimum": 0.0, "exclusiveMinimum": true, "maximum": 0.5}), json!(0.25)),
            (json!({"type": "string", "minLength": 8}), json!("helloooo")),
            (json!({"type": "string", "maxLength": 2}), json!("a")),
            (json!({"type": "string", "maxLength": 0}), json!("")),
            (json!({"type": "string", "enum": [null, "small", "big"]}), json!("small")),
            (json!({"type": "string", "default": "red"}), json!("red")),
            (json!({"type": "string", "pattern": "^[A-Z]{2}$", "example": "AB"}), json!("AB")),
            (json!({"type": "string", "format": "date-time"}), json!("2024-01-01T00:00:01Z")),
            (json!({"type": "string", "format": "int-or-what"}), json!("hello")),
            (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), json!(1)),
            (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({})),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), json!({})),
            (json!({"type": "array", "items": {"type": "string"}}), json!([])),
        ] {
            assert_eq!(spec(&schema), Ok(value), "{schema}");
        }
    }

    #[test]
    fn items_differ_and_maps_are_filled() {
        let list = json!({"type": "array", "minItems": 2, "items": {
            "type": "object", "required": ["name", "port"],
            "properties": {"name": {"type": "string"}, "port": {"type": "integer", "minimum": 1.0}},
        }});
        assert_eq!(spec(&list), Ok(json!([{"name": "hello", "port": 1}, {"name": "hello-2", "port": 2}])));
        let map = json!({"type": "object", "minProperties": 2, "additionalProperties": {"type": "string"}});
        assert_eq!(spec(&map), Ok(json!({"key-1": "hello-2", "key-2": "hello-3"})));
        let optional = json!({"type": "object", "minProperties": 1, "properties": {"a": {"type": "boolean"}}});
        assert_eq!(spec(&optional), Ok(json!({"a": false})));
    }

    #[test]
    fn alternatives_are_the_first_of_them() {
        let schema = json!({
            "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["b"], "properties": {"b": {"minimum": 7.0}}}, {"required": ["a"]}],
            "allOf": [{"required": ["a"]}],
        });
        assert_eq!(spec(&schema), Ok(json!({"a": "hello", "b": 7})));
    }

    #[test]
    fn what_has_no_value_is_named() {
        let schema = json!({"type": "object", "required": ["code"], "properties": {
            "code": {"type": "integer", "minimum": 3.0, "maximum": 2.0},
        }});
        assert_eq!(spec(&schema), Err("no value was found for `spec.code`: its limits allow no value".to_owned()));
    }
}
