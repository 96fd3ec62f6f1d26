//! From JSON to a message, with the bytes that Kubernetes itself would write.

mod reverse_writer;
mod special;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

pub(crate) use self::reverse_writer::ReverseWriter;
use crate::error::{EncodeError, Place};
use crate::table::{Field, Message, Type};

/// Kubernetes' own decoder is as lenient with the last group.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Encodes an object without its length; `null` is an object without members.
pub(crate) fn message(to: &mut ReverseWriter, message: Message, object: &Value) -> Result<(), EncodeError> {
    match object {
        Value::Object(members) => fields(to, message, members),
        Value::Null => fields(to, message, &Map::new()),
        other => Err(EncodeError::new(message.into(), "an object", other)),
    }
}

fn fields(to: &mut ReverseWriter, message: Message, members: &Map<String, Value>) -> Result<(), EncodeError> {
    for field in message.fields().rev() {
        let place = Place { message, field: Some(field) };
        if field.is_inline() {
            let end = to.len();
            fields(to, field.message(), members)?;
            to.length(field.number(), end);
            continue;
        }
        let value = members.get(field.name()).unwrap_or(&Value::Null);
        match value {
            Value::Array(items) if field.is_list() => {
                for item in items.iter().rev() {
                    one(to, place, field, item)?;
                }
            }
            Value::Object(entries) if field.is_map() => map(to, place, field, entries)?,
            Value::Null if field.is_list() || field.is_map() || field.is_optional() => {}
            Value::Null if matches!(field.of(), Type::Bytes | Type::Strings) => {}
            other if field.is_list() => return Err(EncodeError::new(place, "a list", other)),
            other if field.is_map() => return Err(EncodeError::new(place, "an object", other)),
            other => one(to, place, field, other)?,
        }
    }
    Ok(())
}

fn map(to: &mut ReverseWriter, place: Place, field: Field, entries: &Map<String, Value>) -> Result<(), EncodeError> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in entries.into_iter().rev() {
        let end = to.len();
        numbered(to, place, field, 2, value)?;
        to.bytes(1, key.as_bytes());
        to.length(field.number(), end);
    }
    Ok(())
}

fn one(to: &mut ReverseWriter, place: Place, field: Field, value: &Value) -> Result<(), EncodeError> {
    numbered(to, place, field, field.number(), value)
}

/// Encodes a message of a field under a number.
fn embedded(to: &mut ReverseWriter, field: Field, number: u32, value: &Value) -> Result<(), EncodeError> {
    let end = to.len();
    message(to, field.message(), value)?;
    to.length(number, end);
    Ok(())
}

/// Encodes one value under a number; `null` is the value that stands for nothing.
fn numbered(to: &mut ReverseWriter, place: Place, field: Field, number: u32, value: &Value) -> Result<(), EncodeError> {
    let wrong = |expected| EncodeError::new(place, expected, value);
    let end = to.len();
    match (field.of(), value) {
        (Type::Bool, Value::Null) => to.varint(number, 0),
        (Type::Bool, value) => to.varint(number, value.as_bool().ok_or_else(|| wrong("true or false"))?.into()),
        (Type::Int32 | Type::Int64, Value::Null) => to.varint(number, 0),
        (Type::Int32, value) => {
            let found = value.as_i64().and_then(|found| i32::try_from(found).ok());
            to.varint(number, i64::from(found.ok_or_else(|| wrong("a whole number of 32 bits"))?) as u64);
        }
        (Type::Int64, value) => to.varint(number, value.as_i64().ok_or_else(|| wrong("a whole number"))? as u64),
        (Type::Double, Value::Null) => to.fixed64(number, 0),
        (Type::Double, value) => to.fixed64(number, value.as_f64().ok_or_else(|| wrong("a number"))?.to_bits()),
        (Type::String | Type::Bytes, Value::Null) => to.bytes(number, b""),
        (Type::String, value) => to.bytes(number, value.as_str().ok_or_else(|| wrong("a string"))?.as_bytes()),
        (Type::Bytes, value) => {
            let text = value.as_str().ok_or_else(|| wrong("a string"))?;
            let decoded = if text.contains(['\r', '\n']) {
                BASE64.decode(text.replace(['\r', '\n'], ""))
            } else {
                BASE64.decode(text)
            };
            to.bytes(number, &decoded.map_err(|_| wrong("base64"))?);
        }
        (Type::Message, Value::Null | Value::Object(_)) => embedded(to, field, number, value)?,
        (Type::Message, _) => return Err(wrong("an object")),
        (_, value) => {
            special::value(to, place, field, value)?;
            to.length(number, end);
        }
    }
    Ok(())
}
