//! From a message to JSON, as the server itself would write it.
//!
//! Fields are written in the order of their numbers. A value that JSON always
//! has is written although the message lacks it, and one that JSON leaves out
//! when it is empty is left out although the message has it.

pub(crate) mod special;
mod value;

use std::ops::Range;

use crate::error::{DecodeError, NESTING, Place, Problem};
use crate::json::JsonSink;
use crate::table::{Field, Message, Type};
use crate::wire::{Reader, Span, Token, Value};

/// As many fields as most objects have in the messages that are open at a time.
const TOKENS: usize = 64;

/// Decodes the messages of one object.
pub(crate) struct Decoder<'a, 's> {
    sink: &'s mut JsonSink,
    /// The fields of the message that is decoded, behind those of the messages around it.
    tokens: Vec<Token<'a>>,
    nesting: usize,
}

impl<'a, 's> Decoder<'a, 's> {
    pub(crate) fn new(sink: &'s mut JsonSink) -> Self {
        Self { sink, tokens: Vec::with_capacity(TOKENS), nesting: 0 }
    }

    /// Writes a whole object, whose kind is not in the message.
    pub(crate) fn object(
        &mut self,
        message: Message,
        api_version: &str,
        kind: &str,
        span: Span<'a>,
    ) -> Result<(), DecodeError> {
        self.begin(message.into(), span.offset)?;
        self.sink.begin_object();
        for (key, value) in [("kind", kind), ("apiVersion", api_version)] {
            self.sink.key(key);
            self.sink.string(value);
        }
        self.fields(message, span)?;
        self.sink.end_object();
        Ok(())
    }

    /// Writes the fields of a message into the object that is open.
    fn fields(&mut self, message: Message, span: Span<'a>) -> Result<(), DecodeError> {
        let start = self.tokens.len();
        let mut reader = Reader::new(span);
        let mut ascending = true;
        loop {
            let offset = reader.offset();
            let token = reader.next().map_err(|problem| DecodeError::at(message.into(), problem, offset))?;
            let Some(token) = token else { break };
            ascending &= self.tokens[start..].last().is_none_or(|last| last.number <= token.number);
            self.tokens.push(token);
        }
        if !ascending {
            // Other encoders than Kubernetes' own may mix the fields.
            self.tokens[start..].sort_by_key(|token| token.number);
        }
        let (mut at, end) = (start, self.tokens.len());
        for field in message.fields() {
            let number = field.number();
            while at < end && self.tokens[at].number < number {
                at += 1;
            }
            let from = at;
            while at < end && self.tokens[at].number == number {
                at += 1;
            }
            // Most fields of most messages.
            if from == at && field.is_silent() {
                continue;
            }
            self.field(Place { message, field: Some(field) }, field, from..at, span)?;
        }
        self.tokens.truncate(start);
        Ok(())
    }

    /// Writes one field with its key. Its occurrences are `found`.
    fn field(&mut self, place: Place, field: Field, found: Range<usize>, around: Span<'a>) -> Result<(), DecodeError> {
        if field.is_inline() {
            return self.merged(place, &found, around, |decoder, span| decoder.fields(field.message(), span));
        }
        let absent = found.is_empty();
        if (field.is_list() || field.is_map() || field.is_optional()) && absent {
            if !field.is_omitted() {
                self.sink.key(field.name());
                self.sink.null();
            }
            return Ok(());
        }
        if field.is_list() {
            return self.list(place, field, found);
        }
        if field.is_map() {
            return self.map(place, field, found);
        }
        if field.of() == Type::Message {
            self.sink.key(field.name());
            return self.merged(place, &found, around, |decoder, span| decoder.message(place, field.message(), span));
        }
        let value = found.last().map(|at| self.tokens[at]);
        if field.is_omitted() && !field.is_optional() && value.is_none_or(|token| token.is_empty(field.of())) {
            return Ok(());
        }
        self.sink.key(field.name());
        match value {
            Some(token) => self.value(place, field, token),
            None => self.absent(place, field, around.offset),
        }
    }

    fn list(&mut self, place: Place, field: Field, found: Range<usize>) -> Result<(), DecodeError> {
        let offset = self.tokens[found.start].offset;
        self.sink.key(field.name());
        self.begin(place, offset)?;
        self.sink.begin_list();
        for at in found {
            let token = self.tokens[at];
            match (field.of(), token.value) {
                (Type::Bool | Type::Int32 | Type::Int64, Value::Bytes(span)) => {
                    let mut reader = Reader::new(span);
                    loop {
                        let offset = reader.offset();
                        let number = reader.packed().map_err(|problem| DecodeError::at(place, problem, offset))?;
                        let Some(number) = number else { break };
                        self.value(place, field, Token { value: Value::Varint(number), ..token })?;
                    }
                }
                _ => self.value(place, field, token)?,
            }
        }
        self.sink.end_list();
        self.nesting -= 1;
        Ok(())
    }

    fn map(&mut self, place: Place, field: Field, found: Range<usize>) -> Result<(), DecodeError> {
        let offset = self.tokens[found.start].offset;
        self.sink.key(field.name());
        self.begin(place, offset)?;
        self.sink.begin_object();
        for at in found {
            let token = self.tokens[at];
            let Value::Bytes(entry) = token.value else { return Err(wrong(place, token)) };
            let (mut key, mut value) = (Span::default(), None);
            let mut reader = Reader::new(entry);
            loop {
                let offset = reader.offset();
                let token = reader.next().map_err(|problem| DecodeError::at(place, problem, offset))?;
                match token {
                    Some(Token { number: 1, value: Value::Bytes(span), .. }) => key = span,
                    Some(token @ Token { number: 1, .. }) => return Err(wrong(place, token)),
                    Some(token @ Token { number: 2, .. }) => value = Some(token),
                    Some(_) => {}
                    None => break,
                }
            }
            self.sink.key(&key.text());
            match value {
                Some(token) => self.value(place, field, token)?,
                None => self.absent_value(place, field, entry.offset)?,
            }
        }
        self.sink.end_object();
        self.nesting -= 1;
        Ok(())
    }

    /// Writes a message as an object.
    fn message(&mut self, place: Place, message: Message, span: Span<'a>) -> Result<(), DecodeError> {
        self.begin(place, span.offset)?;
        self.sink.begin_object();
        self.fields(message, span)?;
        self.sink.end_object();
        self.nesting -= 1;
        Ok(())
    }

    /// Decodes all occurrences of a message as one: their fields, one after the other, are those of the whole.
    fn merged(
        &mut self,
        place: Place,
        found: &Range<usize>,
        around: Span<'a>,
        decode: impl for<'b, 't> Fn(&mut Decoder<'b, 't>, Span<'b>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut parts = self.tokens[found.clone()].iter().map(|token| match token.value {
            Value::Bytes(span) => Ok(span),
            _ => Err(wrong(place, *token)),
        });
        let first = parts.next().unwrap_or(Ok(Span { bytes: &[], offset: around.offset }))?;
        if found.len() < 2 {
            drop(parts);
            return decode(self, first);
        }
        let mut joined = first.bytes.to_vec();
        for part in parts {
            joined.extend_from_slice(part?.bytes);
        }
        let span = Span { bytes: &joined, offset: first.offset };
        let mut decoder = Decoder { sink: &mut *self.sink, tokens: Vec::new(), nesting: self.nesting };
        decode(&mut decoder, span)
    }

    /// Counts an object or list that begins.
    fn begin(&mut self, place: Place, offset: usize) -> Result<(), DecodeError> {
        self.nesting += 1;
        if self.nesting > NESTING { Err(DecodeError::at(place, Problem::Nesting, offset)) } else { Ok(()) }
    }
}

/// The error of a value that has the wire type of another field.
fn wrong(place: Place, token: Token<'_>) -> DecodeError {
    DecodeError::at(place, Problem::WireType(token.value.wire_type()), token.offset)
}
