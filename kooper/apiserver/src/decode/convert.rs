//! Conversion of untyped values to a built-in type, which Go uses for the result of a strategic
//! merge patch. Its error messages differ from those of the decoder.

use serde_json::{Value, json};

use super::{Expected, ExpectedType, Reader, State, literal};
use crate::patch::format::type_name;
use crate::schema::published;

/// Converts an object of a built-in kind by the name of its definition. Numbers become those that the type can hold.
pub(crate) fn convert(object: &mut Value, definition: &'static str) -> Result<(), String> {
    value(object, &Expected::Typed { of: ExpectedType::Struct(definition), go: published::go_name(definition) })
}

fn value(found: &mut Value, expected: &Expected) -> Result<(), String> {
    let Expected::Typed { of, go } = expected else { return Ok(()) };
    match (*of, found) {
        (_, Value::Null) => Ok(()),
        (ExpectedType::Struct(name), Value::Object(entries)) => {
            let properties = published::definition(name).and_then(|definition| definition["properties"].as_object());
            let mut wrong = Vec::new();
            for (key, schema) in properties.into_iter().flatten() {
                if let Some(found) = entries.get_mut(key) {
                    let (_, go) = published::go_member(name, key);
                    let converted = value(found, &Expected::of(schema, go.map(ToOwned::to_owned)));
                    wrong.extend(converted.err().map(|why| (published::place_of(name, key), why)));
                }
            }
            // Go goes through the members of its type.
            wrong.into_iter().min_by_key(|(place, _)| *place).map_or(Ok(()), |(_, why)| Err(why))
        }
        (ExpectedType::Map(entry), Value::Object(entries)) => {
            let entry = Expected::of(entry, go.strip_prefix("map[string]").map(ToOwned::to_owned));
            entries.values_mut().try_for_each(|found| value(found, &entry))
        }
        (ExpectedType::List(item), Value::Array(items)) => {
            let item = Expected::of(item, go.strip_prefix("[]").map(ToOwned::to_owned));
            items.iter_mut().try_for_each(|found| value(found, &item))
        }
        (ExpectedType::Bytes, Value::String(text)) => literal::not_base64(text)
            .map_or(Ok(()), |at| Err(format!("error decoding from json: illegal base64 data at input byte {at}"))),
        // Bytes may be a list of numbers.
        (ExpectedType::Bytes, Value::Array(items)) => match items.iter().all(Value::is_number) {
            true => Ok(()),
            false => Err("unrecognized type: uint8".to_owned()),
        },
        (ExpectedType::Struct(_), other) => Err(format!("cannot restore struct from: {}", family(other))),
        (ExpectedType::Map(_), other) => Err(format!("cannot restore map from {}", family(other))),
        (ExpectedType::List(_) | ExpectedType::Bytes, other) => {
            Err(format!("cannot restore slice from {}", family(other)))
        }
        (ExpectedType::Text, Value::String(_))
        | (ExpectedType::Bool, Value::Bool(_))
        | (ExpectedType::Float, Value::Number(_)) => Ok(()),
        (ExpectedType::Int32 | ExpectedType::Int64, found @ Value::Number(_)) => whole(*of, found, go),
        (ExpectedType::Text, other @ Value::Number(_)) if other.is_i64() => {
            Err(format!("cannot convert int64 to {go}"))
        }
        (ExpectedType::Text, _) => Err("unrecognized type: string".to_owned()),
        (ExpectedType::Bool, _) => Err("unrecognized type: bool".to_owned()),
        (ExpectedType::Int32, _) => Err("unrecognized type: int32".to_owned()),
        (ExpectedType::Int64, _) => Err("unrecognized type: int64".to_owned()),
        (ExpectedType::Float, _) => Err("unrecognized type: float64".to_owned()),
        // These decode themselves.
        (ExpectedType::Time { .. } | ExpectedType::Quantity | ExpectedType::IntOrString, found) => {
            let mut state = State::default();
            let reader = Reader { state: &mut state, expected: expected.clone() };
            drop(serde::de::DeserializeSeed::deserialize(reader, &*found));
            state.fatal.or(state.error).map_or(Ok(()), Err)
        }
    }
}

/// Numbers are cut to the size of the type.
fn whole(of: ExpectedType, found: &mut Value, go: &str) -> Result<(), String> {
    let number = match (found.as_i64(), found.as_f64()) {
        (Some(number), _) => number,
        // Go cuts what is too large.
        (None, Some(number)) if number.fract() == 0.0 => number as i64,
        _ => return Err(format!("cannot convert float64 to {go}")),
    };
    let number = if matches!(of, ExpectedType::Int32) { i64::from(number as i32) } else { number };
    *found = json!(number);
    Ok(())
}

/// Returns the name of Go's `reflect.Kind` for a decoded JSON value.
fn family(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        other => type_name(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::convert;

    #[test]
    fn a_value_of_a_wrong_type_is_named_by_the_types() {
        let of = |name: &'static str, mut object: Value| convert(&mut object, name).map(|()| object);
        let secret = |object| of("io.k8s.api.core.v1.Secret", object);
        let pod = |spec: Value| of("io.k8s.api.core.v1.Pod", json!({"spec": spec}));
        let base64 = "error decoding from json: illegal base64 data at input byte 0";
        assert_eq!(secret(json!({"data": {"a": "*"}})), Err(base64.to_owned()));
        assert_eq!(secret(json!({"data": {"a": 1}})), Err("cannot restore slice from int64".to_owned()));
        assert_eq!(secret(json!({"data": []})), Err("cannot restore map from slice".to_owned()));
        assert_eq!(secret(json!({"type": 1})), Err("cannot convert int64 to v1.SecretType".to_owned()));
        assert_eq!(secret(json!({"type": true})), Err("unrecognized type: string".to_owned()));
        assert_eq!(pod(json!([])), Err("cannot restore struct from: slice".to_owned()));
        assert_eq!(pod(json!({"priority": 1.5})), Err("cannot convert float64 to int32".to_owned()));
        let cut = json!({"spec": {"priority": -1_294_967_296, "activeDeadlineSeconds": 2}});
        assert_eq!(pod(json!({"priority": 3_000_000_000_i64, "activeDeadlineSeconds": 2.0})), Ok(cut));
    }
}
