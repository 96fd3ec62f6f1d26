//! JSON in which a field may come twice.
//!
//! The real server keeps the values of a JSON patch as they are written until
//! it decodes the patched object, so fields that come twice are found in both.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use super::json::json_patch;

/// The JSON of the object that a patch leads to, with the fields that come twice within the patch's values; `None` where
/// there are none.
pub(crate) fn patched(present: &Value, patch: &[u8]) -> Option<String> {
    let Ok(Doubled::List(operations)) = serde_json::from_slice(patch) else { return None };
    let mut kept = Vec::new();
    let mut plain = |operation: &Doubled| {
        let Doubled::Object(members) = operation else { return Value::Null };
        let members = members.iter().map(|(key, value)| {
            if key != "value" || !value.is_doubled() {
                return (key.clone(), value.to_value());
            }
            let stands_for = Value::String(format!("\u{1}{}\u{1}", kept.len()));
            kept.push((stands_for.to_string(), value.to_string()));
            (key.clone(), stands_for)
        });
        Value::Object(members.collect::<Map<_, _>>())
    };
    let operations: Vec<_> = operations.iter().map(&mut plain).filter(|operation| operation["op"] != "test").collect();
    if kept.is_empty() {
        return None;
    }
    let mut object = present.clone();
    // An operation within such a value makes it one in which each field comes once.
    json_patch(&mut object, &operations).ok()?;
    Some(kept.iter().fold(json!(object).to_string(), |text, (stands_for, value)| text.replace(stands_for, value)))
}

enum Doubled {
    Object(Vec<(String, Doubled)>),
    List(Vec<Doubled>),
    Other(Value),
}

impl Doubled {
    /// Whether a field comes twice in it.
    fn is_doubled(&self) -> bool {
        match self {
            Self::Object(members) => {
                let twice =
                    |(at, (key, _)): (usize, &(String, Self))| members[..at].iter().any(|(other, _)| other == key);
                members.iter().enumerate().any(twice) || members.iter().any(|(_, value)| value.is_doubled())
            }
            Self::List(items) => items.iter().any(Self::is_doubled),
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

impl fmt::Display for Doubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = |f: &mut fmt::Formatter<'_>, at: usize| if at > 0 { f.write_str(",") } else { Ok(()) };
        match self {
            Self::Object(members) => {
                f.write_str("{")?;
                for (at, (key, value)) in members.iter().enumerate() {
                    comma(f, at)?;
                    write!(f, "{}:{value}", json!(key))?;
                }
                f.write_str("}")
            }
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    comma(f, at)?;
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Self::Other(value) => write!(f, "{value}"),
        }
    }
}

impl<'de> Deserialize<'de> for Doubled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Doubled;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Doubled, E> {
        Ok(Doubled::Other(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Doubled, E> {
        Ok(Doubled::Other(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Doubled, E> {
        Ok(Doubled::Other(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Doubled, E> {
        Ok(Doubled::Other(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Doubled, E> {
        Ok(Doubled::Other(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Doubled, E> {
        Ok(Doubled::Other(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Doubled, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Doubled::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Doubled, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = entries.next_entry()? {
            members.push(member);
        }
        Ok(Doubled::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::patched;

    #[test]
    fn values_stay_as_they_are_written() {
        let present = json!({"a": {"b": 1}});
        let of = |patch: &str| patched(&present, patch.as_bytes());
        let patch = r#"[{"op": "test", "path": "/a/b", "value": 2}, {"op": "add", "path": "/c", "value": [{"x": "\"", "x": null}]}]"#;
        assert_eq!(of(patch).as_deref(), Some(r#"{"a":{"b":1},"c":[{"x":"\"","x":null}]}"#));
        assert_eq!(of(r#"[{"op": "add", "path": "/c", "value": {"x": 1}, "value": {"x": 2}}]"#), None);
        let within =
            r#"[{"op": "add", "path": "/c", "value": {"x": 1, "x": 2}}, {"op": "add", "path": "/c/y", "value": 1}]"#;
        assert_eq!(of(within), None);
    }
}
