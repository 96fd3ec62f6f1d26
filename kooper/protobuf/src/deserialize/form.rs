//! The form of a value in JSON.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Shared;
use crate::decode::special::{IntOrString, each, int_or_string, last, nesting, numbers, schema_or_bool};
use crate::error::{DecodeError, NESTING, Place, Problem};
use crate::lexer::{self, Record};
use crate::table::{Field, Message, Type};
use crate::time;
use crate::wire::Span;

/// A value as JSON has it. What is in objects and lists has not been read.
#[derive(Clone, Copy)]
pub(super) enum Form<'de> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'de str),
    /// The text that was written for this value.
    Written,
    /// The object as a whole.
    Object,
    Message(Message, &'de [u8]),
    List(Run<'de>),
    Map(Run<'de>),
    Json(&'de [u8]),
}

/// All occurrences of a field, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Run<'de> {
    /// The field of a list or map.
    pub(super) field: Field,
    pub(super) bytes: &'de [u8],
    /// The number of the occurrences.
    pub(super) number: u32,
    pub(super) count: u32,
    /// `true` for a list that is in a message of its own.
    pub(super) is_inner: bool,
}

impl Run<'_> {
    /// Returns `true` if several numbers may follow one tag.
    pub(super) fn is_packed(&self) -> bool {
        self.field.of().wire_type() == Record::VARINT
    }
}

impl<'de> Shared<'de> {
    /// Makes a field that the message lacks the next value. Returns `false` if JSON omits it.
    pub(super) fn absent(&mut self, place: Place, field: Field) -> Result<bool, DecodeError> {
        self.form = Form::Null;
        if field.is_list() || field.is_map() || field.is_optional() {
            return Ok(!field.is_omitted());
        }
        match field.of() {
            Type::Message => self.form = Form::Message(field.message(), &[]),
            _ if field.is_omitted() => return Ok(false),
            // Bytes that are absent are not the same as no bytes.
            Type::Bytes => {}
            of => self.value(place, field, &Record { wire_type: of.wire_type(), ..Record::default() })?,
        }
        Ok(true)
    }

    /// Makes a field that occurs the next value. Returns `false` if JSON omits it.
    #[inline]
    pub(super) fn present(
        &mut self,
        place: Place,
        field: Field,
        bytes: &'de [u8],
        count: u32,
        last: &Record<'de>,
    ) -> Result<bool, DecodeError> {
        (self.place, self.bytes) = (place, bytes);
        if field.is_list() || field.is_map() {
            let run = Run { field, bytes, number: field.number(), count, is_inner: false };
            self.form = if field.is_list() { Form::List(run) } else { Form::Map(run) };
            return Ok(true);
        }
        if field.is_omitted() && !field.is_optional() && is_empty(field.of(), last) {
            return Ok(false);
        }
        self.value(place, field, last)?;
        Ok(true)
    }

    /// Makes an item of a list the next value.
    pub(super) fn item(&mut self, place: Place, run: &Run<'de>, record: &Record<'de>) -> Result<(), DecodeError> {
        if run.is_inner {
            let bytes = self.bytes_of(place, record)?;
            match run.field.of() {
                Type::SchemaOrArray => self.form = Form::Message(run.field.message(), bytes),
                _ => self.text(bytes),
            }
            return Ok(());
        }
        self.value(place, run.field, record)
    }

    /// Makes a field that is no list, an item of a list, or the value of a map the next value.
    #[inline]
    pub(super) fn value(&mut self, place: Place, field: Field, record: &Record<'de>) -> Result<(), DecodeError> {
        let of = field.of();
        if record.wire_type != of.wire_type() {
            return Err(self.wrong(place, record));
        }
        match of {
            Type::String => self.text(record.bytes),
            Type::Message => self.form = Form::Message(field.message(), record.bytes),
            Type::Bool => self.form = Form::Bool(record.word != 0),
            Type::Int32 => self.form = Form::Int(i64::from(record.word as i32)),
            Type::Int64 => self.form = Form::Int(record.word as i64),
            Type::Double => return self.double(place, record),
            _ => return self.special(place, field, record.bytes),
        }
        Ok(())
    }

    fn double(&mut self, place: Place, record: &Record<'de>) -> Result<(), DecodeError> {
        /// Up to here every whole number has a float of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let value = f64::from_bits(record.word);
        if !value.is_finite() {
            return Err(self.error(place, Problem::NotFinite, record.bytes));
        }
        // Whole numbers are written without a fraction.
        let whole = value.fract() == 0.0 && value.abs() < EXACT;
        self.form = if whole { Form::Int(value as i64) } else { Form::Float(value) };
        Ok(())
    }

    /// Messages that JSON does not write as objects.
    fn special(&mut self, place: Place, field: Field, bytes: &'de [u8]) -> Result<(), DecodeError> {
        let span = self.span(bytes);
        match field.of() {
            Type::Bytes => {
                self.text.clear();
                STANDARD.encode_string(bytes, &mut self.text);
                self.form = Form::Written;
            }
            Type::Time | Type::MicroTime if bytes.is_empty() => self.form = Form::Null,
            of @ (Type::Time | Type::MicroTime) => {
                let [seconds, nanos] = numbers(place, span)?;
                let nanos = (of == Type::MicroTime).then_some(nanos as i32);
                self.write(&time::write(seconds as i64, nanos));
            }
            Type::Quantity => match last(place, span, 1)? {
                Some(text) => self.text(text.bytes),
                None => self.form = Form::Text("0"),
            },
            Type::IntOrString => self.int_or_string(place, span)?,
            Type::Json => match last(place, span, 1)?.filter(|raw| !raw.bytes.is_empty()) {
                Some(raw) if self.nesting + nesting(raw.bytes) > NESTING => {
                    return Err(DecodeError::at(place, Problem::Nesting, raw.offset));
                }
                Some(raw) => self.form = Form::Json(raw.bytes),
                None => self.form = Form::Null,
            },
            Type::Strings => {
                self.inner_list(place, field, span, 1)?;
                // Without any, it is only a list as the value of a map.
                if matches!(self.form, Form::List(Run { count: 0, .. })) && !field.is_map() {
                    self.form = Form::Null;
                }
            }
            Type::SchemaOrBool => {
                let (allows, schema) = schema_or_bool(place, span)?;
                self.form = schema.map_or(Form::Bool(allows), |schema| Form::Message(field.message(), schema.bytes));
            }
            _ => {
                self.inner_list(place, field, span, 2)?;
                if matches!(self.form, Form::List(Run { count: 0, .. })) {
                    let schema = last(place, span, 1)?;
                    self.form = schema.map_or(Form::Null, |schema| Form::Message(field.message(), schema.bytes));
                }
            }
        }
        Ok(())
    }

    /// A string; what is not UTF-8 is replaced.
    #[inline]
    pub(super) fn text(&mut self, bytes: &'de [u8]) {
        match (Span { bytes, offset: 0 }).text() {
            Cow::Borrowed(text) => self.form = Form::Text(text),
            Cow::Owned(text) => self.write(&text),
        }
    }

    fn write(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.form = Form::Written;
    }

    fn int_or_string(&mut self, place: Place, span: Span<'de>) -> Result<(), DecodeError> {
        match int_or_string(place, span)? {
            IntOrString::Int(number) => self.form = Form::Int(number.into()),
            IntOrString::String(text) => self.text(text.bytes),
        }
        Ok(())
    }

    /// Makes the list that is in a message of its own the next value.
    fn inner_list(&mut self, place: Place, field: Field, span: Span<'de>, number: u32) -> Result<(), DecodeError> {
        let mut count = 0;
        each(place, span, |token| {
            count += u32::from(token.number == number);
            Ok(())
        })?;
        self.form = Form::List(Run { field, bytes: span.bytes, number, count, is_inner: true });
        Ok(())
    }

    /// The next of several numbers without tags.
    pub(super) fn packed(&self, place: Place, rest: &mut &'de [u8]) -> Result<u64, DecodeError> {
        let (number, behind) = lexer::number(rest).ok_or_else(|| self.error(place, Problem::Truncated, rest))?;
        *rest = behind;
        Ok(number)
    }

    /// The bytes of a field that has a length.
    pub(super) fn bytes_of(&self, place: Place, record: &Record<'de>) -> Result<&'de [u8], DecodeError> {
        if record.wire_type == Record::BYTES { Ok(record.bytes) } else { Err(self.wrong(place, record)) }
    }

    /// The error of a value that has the wire type of another field.
    fn wrong(&self, place: Place, record: &Record<'de>) -> DecodeError {
        self.error(place, Problem::WireType(record.wire_type as u8), record.bytes)
    }
}

/// Returns `true` if JSON omits the value as empty.
fn is_empty(of: Type, record: &Record<'_>) -> bool {
    match of {
        Type::Bool | Type::Int64 => record.word == 0,
        Type::Int32 => record.word as i32 == 0,
        Type::Double => f64::from_bits(record.word) == 0.0,
        Type::String | Type::Bytes | Type::Time => record.bytes.is_empty(),
        _ => false,
    }
}
