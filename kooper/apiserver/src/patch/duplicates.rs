//! JSON in which a field may come twice.
//!
//! The real server keeps the values of a JSON patch as they are written until
//! it decodes the patched object, so fields that come twice are found in both.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::json::JsonPatch;

/// Delimiters, as encoded in JSON, around the number of a value in the string that replaces it.
const MARK: (&str, &str) = ("\"\\u0001", "\\u0001\"");

/// A JSON patch with values in which a field comes twice.
pub(crate) struct PatchWithDuplicates {
    /// Its operations but tests, with a string for each of these values.
    operations: JsonPatch,
    /// The JSON of these values.
    values: Vec<String>,
}

impl PatchWithDuplicates {
    /// `None` where no field comes twice within a value.
    pub(crate) fn parse(patch: &[u8]) -> Option<Self> {
        let Ok(ValueWithDuplicates::List(operations)) = serde_json::from_slice(patch) else { return None };
        let mut values = Vec::new();
        let mut plain = |operation: &ValueWithDuplicates| {
            let ValueWithDuplicates::Object(members) = operation else { return Value::Null };
            let members = members.iter().map(|(key, value)| {
                if key != "value" || !value.has_duplicates() {
                    return (key.clone(), value.to_value());
                }
                values.push(value.to_string());
                (key.clone(), Value::String(format!("\u{1}{}\u{1}", values.len() - 1)))
            });
            Value::Object(members.collect::<Map<_, _>>())
        };
        let operations = operations.iter().map(&mut plain).filter(|operation| operation["op"] != "test").collect();
        if values.is_empty() { None } else { Some(Self { operations: JsonPatch::new(operations, b""), values }) }
    }

    /// The JSON of the object that the patch leads to, with what comes twice.
    pub(crate) fn patched(&self, present: &Value) -> Option<String> {
        let mut object = present.clone();
        // An operation within such a value makes it one in which each field comes once.
        self.operations.apply(&mut object).ok()?;
        let text = object.to_string();
        let mut parts = text.split(MARK.0);
        let mut patched = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let value = part.split_once(MARK.1).and_then(|(number, rest)| {
                let value = self.values.get(number.parse::<usize>().ok()?)?;
                Some([value, rest])
            });
            patched.extend(value.unwrap_or([MARK.0, part]));
        }
        Some(patched)
    }
}

enum ValueWithDuplicates {
    Object(Vec<(String, ValueWithDuplicates)>),
    List(Vec<ValueWithDuplicates>),
    Other(Value),
}

impl ValueWithDuplicates {
    /// Returns whether the value contains a duplicate field.
    fn has_duplicates(&self) -> bool {
        match self {
            Self::Object(members) => {
                let mut keys = HashSet::new();
                members.iter().any(|(key, value)| !keys.insert(key) || value.has_duplicates())
            }
            Self::List(items) => items.iter().any(Self::has_duplicates),
            Self::Other(_) => false,
        }
    }

    /// The last value of each field.
    fn to_value(&self) -> Value {
        match self {
            Self::Object(members) => members.iter().map(|(key, value)| (key.clone(), value.to_value())).collect(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Other(value) => value.clone(),
        }
    }
}

impl fmt::Display for ValueWithDuplicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(members) => {
                let members: Vec<_> = members.iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
                write!(f, "{{{}}}", members.join(","))
            }
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(","))
            }
            Self::Other(value) => write!(f, "{value}"),
        }
    }
}

impl<'de> Deserialize<'de> for ValueWithDuplicates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = ValueWithDuplicates;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<ValueWithDuplicates, E> {
        Ok(ValueWithDuplicates::Other(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<ValueWithDuplicates, E> {
        Ok(ValueWithDuplicates::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<ValueWithDuplicates, E> {
        Ok(ValueWithDuplicates::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ValueWithDuplicates, E> {
        Ok(ValueWithDuplicates::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ValueWithDuplicates, E> {
        Ok(ValueWithDuplicates::Other(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<ValueWithDuplicates, E> {
        Ok(ValueWithDuplicates::Other(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ValueWithDuplicates, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(ValueWithDuplicates::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ValueWithDuplicates, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = entries.next_entry()? {
            members.push(member);
        }
        Ok(ValueWithDuplicates::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::PatchWithDuplicates;

    #[test]
    fn values_stay_as_they_are_written() {
        let present = json!({"a": {"b": 1}});
        let of = |patch: &str| PatchWithDuplicates::parse(patch.as_bytes())?.patched(&present);
        let patch = r#"[{"op": "test", "path": "/a/b", "value": 2}, {"op": "add", "path": "/c", "value": [{"x": "\"", "x": null}]}]"#;
        assert_eq!(of(patch).as_deref(), Some(r#"{"a":{"b":1},"c":[{"x":"\"","x":null}]}"#));
        assert_eq!(of(r#"[{"op": "add", "path": "/c", "value": {"x": 1}, "value": {"x": 2}}]"#), None);
        let within =
            r#"[{"op": "add", "path": "/c", "value": {"x": 1, "x": 2}}, {"op": "add", "path": "/c/y", "value": 1}]"#;
        assert_eq!(of(within), None);
    }

    #[test]
    fn many_values_and_many_fields_take_no_longer_than_they_are() {
        let fields: Vec<_> = (0..100_000).map(|field| format!(r#""{field}":1"#)).collect();
        let operations = (0..5_000).map(|field| format!(r#"{{"op":"add","path":"/{field}","value":{{"x":1,"x":2}}}}"#));
        let wide = format!(r#"{{"op":"add","path":"/wide","value":{{{}}}}}"#, fields.join(","));
        let patch = format!("[{}]", operations.chain([wide]).collect::<Vec<_>>().join(","));
        let patched = PatchWithDuplicates::parse(patch.as_bytes()).unwrap().patched(&json!({})).unwrap();
        assert_eq!(patched.matches(r#"{"x":1,"x":2}"#).count(), 5_000);
    }

    #[test]
    fn a_string_that_looks_like_one_that_stands_for_a_value_stays() {
        let patch = r#"[{"op": "add", "path": "/c", "value": {"x": 1, "x": 2}}, {"op": "add", "path": "/d", "value": "\u0001 7"}]"#;
        let patched = PatchWithDuplicates::parse(patch.as_bytes()).unwrap().patched(&json!({})).unwrap();
        assert_eq!(patched, r#"{"c":{"x":1,"x":2},"d":"\u0001 7"}"#);
    }
}
