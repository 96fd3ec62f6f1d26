//! Checks whether an object is encoded as Kubernetes does it.

use crate::decode::special::nesting;
use crate::error::NESTING;
use crate::lexer::{END, Lexer, Record};
use crate::table::{Field, Message, Type};

/// The maximum depth of objects and lists. Within it are also the empty objects that JSON has for a few absent messages.
const DEPTH: usize = NESTING - 8;

/// Returns `true` if a message can be decoded, the fields of each message are in the order of their numbers, and those
/// that are no list and no map occur once. `depth` is the number of objects and lists around it.
pub(crate) fn is_canonical(message: Message, bytes: &[u8], depth: usize) -> bool {
    depth < DEPTH && fields(message, bytes, depth + 1)
}

fn fields(message: Message, bytes: &[u8], depth: usize) -> bool {
    let (mut fields, mut last, mut field) = (message.fields(), 0, None);
    each(bytes, |record| {
        if record.number < last {
            return false;
        }
        let again = record.number == last;
        if !again {
            last = record.number;
            field = fields.at(record.number);
        }
        // Fields of newer versions are skipped.
        let Some(field) = field else { return true };
        (!again || field.is_list() || field.is_map()) && occurrence(field, record, depth)
    })
}

fn occurrence(field: Field, record: &Record<'_>, depth: usize) -> bool {
    if field.is_map() {
        return record.wire_type == Record::BYTES && depth < DEPTH && entry(field, record.bytes, depth + 1);
    }
    if field.is_list() {
        let is_packed = record.wire_type == Record::BYTES && field.of().wire_type() == Record::VARINT;
        return depth < DEPTH && (if is_packed { packed(record.bytes) } else { value(field, record, depth + 1) });
    }
    if field.is_inline() {
        return record.wire_type == Record::BYTES && fields(field.message(), record.bytes, depth);
    }
    value(field, record, depth)
}

fn entry(field: Field, bytes: &[u8], depth: usize) -> bool {
    each(bytes, |record| match record.number {
        1 => record.wire_type == Record::BYTES,
        2 => value(field, record, depth),
        _ => true,
    })
}

fn value(field: Field, record: &Record<'_>, depth: usize) -> bool {
    if record.wire_type != field.of().wire_type() {
        return false;
    }
    let is_bytes = |record: &Record<'_>| record.wire_type == Record::BYTES;
    let is_schema = |record: &Record<'_>, depth| is_bytes(record) && is_canonical(field.message(), record.bytes, depth);
    match field.of() {
        Type::String | Type::Bytes | Type::Bool | Type::Int32 | Type::Int64 => true,
        Type::Message => is_canonical(field.message(), record.bytes, depth),
        Type::Double => f64::from_bits(record.word).is_finite(),
        Type::Time | Type::MicroTime => {
            each(record.bytes, |record| !matches!(record.number, 1 | 2) || record.wire_type == Record::VARINT)
        }
        Type::Quantity => each(record.bytes, |record| record.number != 1 || is_bytes(record)),
        Type::IntOrString => each(record.bytes, |record| match record.number {
            1 => record.wire_type == Record::VARINT && record.word < 2,
            2 => record.wire_type == Record::VARINT,
            3 => is_bytes(record),
            _ => true,
        }),
        Type::Json => {
            each(record.bytes, |record| record.number != 1 || is_bytes(record) && is_json(record.bytes, depth))
        }
        Type::Strings => depth < DEPTH && each(record.bytes, |record| record.number != 1 || is_bytes(record)),
        Type::SchemaOrArray => each(record.bytes, |record| match record.number {
            1 => is_schema(record, depth),
            2 => is_schema(record, depth + 1),
            _ => true,
        }),
        Type::SchemaOrBool => each(record.bytes, |record| match record.number {
            1 => record.wire_type == Record::VARINT,
            2 => is_schema(record, depth),
            _ => true,
        }),
        Type::SchemaOrStrings => {
            depth < DEPTH
                && each(record.bytes, |record| match record.number {
                    1 => is_schema(record, depth),
                    2 => is_bytes(record),
                    _ => true,
                })
        }
    }
}

/// Returns `true` if bytes are the fields of a message, and all of them are accepted.
fn each(bytes: &[u8], mut accept: impl FnMut(&Record<'_>) -> bool) -> bool {
    let mut lexer = Lexer::new(bytes);
    loop {
        if lexer.step().is_err() {
            return false;
        }
        if lexer.record.number == END {
            return true;
        }
        if !accept(&lexer.record) {
            return false;
        }
    }
}

fn packed(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((_, behind)) = crate::lexer::number(rest) else { return false };
        rest = behind;
    }
    true
}

fn is_json(json: &[u8], depth: usize) -> bool {
    let fits = depth + nesting(json) <= DEPTH;
    json.is_empty() || fits && serde_json::from_slice::<serde_json::Value>(json).is_ok()
}
