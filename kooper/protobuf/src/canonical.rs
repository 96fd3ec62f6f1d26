//! Checks whether an object is encoded as Kubernetes does it.

use crate::decode::special::nesting;
use crate::error::NESTING;
use crate::lexer::{END, Lexer, Piece};
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
    each(bytes, |piece| {
        if piece.number < last {
            return false;
        }
        let again = piece.number == last;
        if !again {
            last = piece.number;
            field = fields.at(piece.number);
        }
        // Fields of newer versions are skipped.
        let Some(field) = field else { return true };
        (!again || field.is_list() || field.is_map()) && occurrence(field, piece, depth)
    })
}

fn occurrence(field: Field, piece: &Piece<'_>, depth: usize) -> bool {
    if field.is_map() {
        return piece.wire_type == Piece::BYTES && depth < DEPTH && entry(field, piece.bytes, depth + 1);
    }
    if field.is_list() {
        let is_packed = piece.wire_type == Piece::BYTES && field.of().wire_type() == Piece::VARINT;
        return depth < DEPTH && (if is_packed { packed(piece.bytes) } else { value(field, piece, depth + 1) });
    }
    if field.is_inline() {
        return piece.wire_type == Piece::BYTES && fields(field.message(), piece.bytes, depth);
    }
    value(field, piece, depth)
}

fn entry(field: Field, bytes: &[u8], depth: usize) -> bool {
    each(bytes, |piece| match piece.number {
        1 => piece.wire_type == Piece::BYTES,
        2 => value(field, piece, depth),
        _ => true,
    })
}

fn value(field: Field, piece: &Piece<'_>, depth: usize) -> bool {
    if piece.wire_type != field.of().wire_type() {
        return false;
    }
    let is_bytes = |piece: &Piece<'_>| piece.wire_type == Piece::BYTES;
    let is_schema = |piece: &Piece<'_>, depth| is_bytes(piece) && is_canonical(field.message(), piece.bytes, depth);
    match field.of() {
        Type::String | Type::Bytes | Type::Bool | Type::Int32 | Type::Int64 => true,
        Type::Message => is_canonical(field.message(), piece.bytes, depth),
        Type::Double => f64::from_bits(piece.word).is_finite(),
        Type::Time | Type::MicroTime => {
            each(piece.bytes, |piece| !matches!(piece.number, 1 | 2) || piece.wire_type == Piece::VARINT)
        }
        Type::Quantity => each(piece.bytes, |piece| piece.number != 1 || is_bytes(piece)),
        Type::IntOrString => each(piece.bytes, |piece| match piece.number {
            1 => piece.wire_type == Piece::VARINT && piece.word < 2,
            2 => piece.wire_type == Piece::VARINT,
            3 => is_bytes(piece),
            _ => true,
        }),
        Type::Json => each(piece.bytes, |piece| piece.number != 1 || is_bytes(piece) && is_json(piece.bytes, depth)),
        Type::Strings => depth < DEPTH && each(piece.bytes, |piece| piece.number != 1 || is_bytes(piece)),
        Type::SchemaOrArray => each(piece.bytes, |piece| match piece.number {
            1 => is_schema(piece, depth),
            2 => is_schema(piece, depth + 1),
            _ => true,
        }),
        Type::SchemaOrBool => each(piece.bytes, |piece| match piece.number {
            1 => piece.wire_type == Piece::VARINT,
            2 => is_schema(piece, depth),
            _ => true,
        }),
        Type::SchemaOrStrings => {
            depth < DEPTH
                && each(piece.bytes, |piece| match piece.number {
                    1 => is_schema(piece, depth),
                    2 => is_bytes(piece),
                    _ => true,
                })
        }
    }
}

/// Returns `true` if bytes are the fields of a message, and all of them are accepted.
fn each(bytes: &[u8], mut accept: impl FnMut(&Piece<'_>) -> bool) -> bool {
    let mut lexer = Lexer::new(bytes);
    loop {
        if lexer.step().is_err() {
            return false;
        }
        if lexer.piece.number == END {
            return true;
        }
        if !accept(&lexer.piece) {
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
