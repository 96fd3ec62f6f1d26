//! Messages that JSON does not write as objects.

use serde_json::Value;

use super::{ReverseWriter, embedded};
use crate::error::{EncodeError, Place};
use crate::table::{Field, Type};
use crate::time;

/// Encodes the contents of such a message.
pub(super) fn value(to: &mut ReverseWriter, place: Place, field: Field, value: &Value) -> Result<(), EncodeError> {
    let wrong = |expected| EncodeError::new(place, expected, value);
    match (field.of(), value) {
        (Type::Time | Type::MicroTime, Value::Null) => {}
        (of @ (Type::Time | Type::MicroTime), value) => {
            let read = value.as_str().and_then(time::read);
            let (seconds, nanos) = read.ok_or_else(|| wrong("a time such as 2026-01-02T03:04:05Z"))?;
            let nanos = if of == Type::Time { 0 } else { nanos / 1000 * 1000 };
            if !time::is_zero(seconds, nanos) {
                to.varint(2, i64::from(nanos) as u64);
                to.varint(1, seconds as u64);
            }
        }
        (Type::Quantity, Value::Null) => to.bytes(1, b"0"),
        (Type::Quantity, Value::String(text)) => to.bytes(1, text.as_bytes()),
        (Type::Quantity, Value::Number(number)) => to.bytes(1, number.to_string().as_bytes()),
        (Type::Quantity, _) => return Err(wrong("a quantity")),
        (Type::IntOrString, Value::Null) => int_or_string(to, 0, 0, ""),
        (Type::IntOrString, Value::String(text)) => int_or_string(to, 1, 0, text),
        (Type::IntOrString, value) => {
            let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
            int_or_string(to, 0, number.ok_or_else(|| wrong("a number of 32 bits, or a string"))?, "");
        }
        (Type::Json | Type::Strings, Value::Null) => {}
        (Type::Json, value) => to.bytes(1, value.to_string().as_bytes()),
        (Type::Strings, Value::Array(items)) => strings(to, place, 1, items)?,
        (Type::Strings, _) => return Err(wrong("a list of strings")),
        (Type::SchemaOrBool, Value::Bool(allows)) => to.varint(1, (*allows).into()),
        (Type::SchemaOrBool, Value::Null) => to.varint(1, 0),
        (Type::SchemaOrBool, Value::Object(_)) => {
            embedded(to, field, 2, value)?;
            to.varint(1, 1);
        }
        (Type::SchemaOrBool, _) => return Err(wrong("a schema, true or false")),
        (Type::SchemaOrArray | Type::SchemaOrStrings, Value::Null) => {}
        (Type::SchemaOrArray | Type::SchemaOrStrings, Value::Object(_)) => embedded(to, field, 1, value)?,
        (Type::SchemaOrArray, Value::Array(items)) => {
            for item in items.iter().rev() {
                embedded(to, field, 2, item)?;
            }
        }
        (Type::SchemaOrStrings, Value::Array(items)) => strings(to, place, 2, items)?,
        _ => return Err(wrong("a schema or a list")),
    }
    Ok(())
}

fn int_or_string(to: &mut ReverseWriter, of: u64, number: i32, text: &str) {
    to.bytes(3, text.as_bytes());
    to.varint(2, i64::from(number) as u64);
    to.varint(1, of);
}

fn strings(to: &mut ReverseWriter, place: Place, number: u32, items: &[Value]) -> Result<(), EncodeError> {
    for item in items.iter().rev() {
        let text = item.as_str().ok_or_else(|| EncodeError::new(place, "a string", item))?;
        to.bytes(number, text.as_bytes());
    }
    Ok(())
}
