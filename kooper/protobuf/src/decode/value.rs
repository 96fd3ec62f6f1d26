//! Single values, by their type.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Decoder, wrong};
use crate::error::{DecodeError, Place, Problem};
use crate::table::{Field, Type};
use crate::wire::{Token, Value};

impl<'a> Decoder<'a, '_> {
    /// Writes the value of a field, an item of a list, or the value of a map.
    pub(super) fn value(&mut self, place: Place, field: Field, token: Token<'a>) -> Result<(), DecodeError> {
        match (field.of(), token.value) {
            (Type::Bool, Value::Varint(number)) => self.sink.bool(number != 0),
            (Type::Int32, Value::Varint(number)) => self.sink.int(i64::from(number as i32)),
            (Type::Int64, Value::Varint(number)) => self.sink.int(number as i64),
            (Type::Double, Value::Fixed64(bits)) => return self.double(place, f64::from_bits(bits), token.offset),
            (Type::String, Value::Bytes(span)) => self.sink.string(&span.text()),
            (Type::Bytes, Value::Bytes(span)) => self.sink.string(&STANDARD.encode(span.bytes)),
            (Type::Message, Value::Bytes(span)) => return self.message(place, field.message(), span),
            (Type::Time, Value::Bytes(span)) => return self.time(place, span, false),
            (Type::MicroTime, Value::Bytes(span)) => return self.time(place, span, true),
            (Type::Quantity, Value::Bytes(span)) => return self.quantity(place, span),
            (Type::IntOrString, Value::Bytes(span)) => return self.int_or_string(place, span),
            (Type::Json, Value::Bytes(span)) => return self.json(place, span),
            (Type::Strings, Value::Bytes(span)) => return self.strings(place, span, field.is_map()),
            (Type::SchemaOrArray, Value::Bytes(span)) => return self.schema_or_array(place, field, span),
            (Type::SchemaOrBool, Value::Bytes(span)) => return self.schema_or_bool(place, field, span),
            (Type::SchemaOrStrings, Value::Bytes(span)) => return self.schema_or_strings(place, field, span),
            _ => return Err(wrong(place, token)),
        }
        Ok(())
    }

    /// Writes a single value that the message lacks.
    pub(super) fn absent(&mut self, place: Place, field: Field, offset: usize) -> Result<(), DecodeError> {
        match field.of() {
            // Bytes that are absent are not the same as no bytes.
            Type::Bytes => self.sink.null(),
            _ => return self.absent_value(place, field, offset),
        }
        Ok(())
    }

    /// Writes the value of a map's entry that has none.
    pub(super) fn absent_value(&mut self, place: Place, field: Field, offset: usize) -> Result<(), DecodeError> {
        self.value(place, field, Token::absent(field.number(), field.of(), offset))
    }

    fn double(&mut self, place: Place, value: f64, offset: usize) -> Result<(), DecodeError> {
        /// Up to here every whole number has a float of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if !value.is_finite() {
            return Err(DecodeError::at(place, Problem::NotFinite, offset));
        }
        // Whole numbers are written without a fraction.
        if value.fract() == 0.0 && value.abs() < EXACT {
            self.sink.int(value as i64);
        } else {
            self.sink.float(value);
        }
        Ok(())
    }
}
