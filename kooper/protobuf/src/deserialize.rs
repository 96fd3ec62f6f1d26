//! From a message into a type, without JSON between them.
//!
//! A type gets the fields that it would get from the object's JSON, in the same
//! order and with the same values. Their names are those of the table.
//!
//! A message is read in one pass, so it must be as Kubernetes encodes it, which
//! [`canonical`](crate::canonical) checks. Where others mix the fields of a message, the
//! parts of a list or of a message would not be found.

mod access;
mod form;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use self::access::{EntryAccess, FieldAccess, ItemAccess};
use self::form::Form;
use crate::error::{DecodeError, NESTING, Place, Problem};
use crate::kind::Kind;
use crate::table::Message;
use crate::wire::Span;

impl Kind {
    /// Decodes an object into a type, as it would be read from the object's JSON.
    ///
    /// The object must be [canonical](Self::is_canonical). Of another one, values may be missing.
    ///
    /// # Errors
    ///
    /// If the bytes are not an object of this kind, or the type does not accept it.
    pub fn deserialize<'de, T: Deserialize<'de>>(self, raw: &'de [u8]) -> Result<T, DecodeError> {
        T::deserialize(Shared::new(self, raw).object())
    }
}

/// The object that is read, and the value that is read next.
///
/// The value is not passed on by itself, because copying it takes long.
pub(crate) struct Shared<'de> {
    kind: Kind,
    raw: &'de [u8],
    nesting: usize,
    /// A text that is written for one value, such as a time.
    text: String,
    /// Where the value is.
    place: Place,
    bytes: &'de [u8],
    form: Form<'de>,
}

/// The value that is read next.
pub(crate) struct Unread<'m, 'de>(&'m mut Shared<'de>);

impl<'de> Shared<'de> {
    pub(crate) fn new(kind: Kind, raw: &'de [u8]) -> Self {
        let (place, text) = (kind.message().into(), String::new());
        Self { kind, raw, nesting: 0, text, place, bytes: raw, form: Form::Object }
    }

    /// The object.
    pub(crate) fn object(&mut self) -> Unread<'_, 'de> {
        Unread(self)
    }

    /// A part of the object.
    fn span(&self, bytes: &'de [u8]) -> Span<'de> {
        let offset = bytes.as_ptr().addr().wrapping_sub(self.raw.as_ptr().addr());
        // Bytes that stand for an absent value are not of the object.
        Span { bytes, offset: if offset <= self.raw.len() { offset } else { 0 } }
    }

    #[cold]
    fn error(&self, place: Place, problem: Problem, bytes: &'de [u8]) -> DecodeError {
        DecodeError::at(place, problem, self.span(bytes).offset)
    }

    fn seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        let (place, bytes) = (self.place, self.bytes);
        match seed.deserialize(Unread(self)) {
            Ok(value) => Ok(value),
            Err(error) => Err(error.within(place, self.span(bytes).offset)),
        }
    }
}

impl<'de> Unread<'_, 'de> {
    /// Reads what is in an object or a list.
    #[inline]
    fn nested<T>(self, read: impl FnOnce(&mut Shared<'de>) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        let shared = self.0;
        let nesting = shared.nesting;
        if nesting >= NESTING {
            return Err(shared.error(shared.place, Problem::Nesting, shared.bytes));
        }
        shared.nesting = nesting + 1;
        let value = read(shared)?;
        shared.nesting = nesting;
        Ok(value)
    }

    #[inline]
    fn fields<T>(
        self,
        message: Message,
        bytes: &'de [u8],
        is_object: bool,
        read: impl FnOnce(FieldAccess<'_, 'de>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.nested(|shared| read(FieldAccess::new(shared, message, bytes, is_object)))
    }

    /// Reads a value that is JSON already.
    fn json<T>(
        self,
        json: &'de [u8],
        read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::StrRead<'de>>) -> serde_json::Result<T>,
    ) -> Result<T, DecodeError> {
        let error = |error| self.0.error(self.0.place, Problem::Json(error), json);
        let text = str::from_utf8(json).map_err(|_| error(serde_json::Error::custom("it is not UTF-8")))?;
        let mut json = serde_json::Deserializer::from_str(text);
        let value = read(&mut json).map_err(error)?;
        json.end().map_err(error)?;
        Ok(value)
    }
}

impl<'de> Deserializer<'de> for Unread<'_, 'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0.form {
            Form::Null => visitor.visit_unit(),
            Form::Bool(value) => visitor.visit_bool(value),
            Form::Int(value) => match u64::try_from(value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(value),
            },
            Form::Float(value) => visitor.visit_f64(value),
            Form::Text(text) => visitor.visit_borrowed_str(text),
            Form::Written => visitor.visit_str(&self.0.text),
            Form::Object => {
                let (message, raw) = (self.0.kind.message(), self.0.raw);
                self.fields(message, raw, true, |fields| visitor.visit_map(fields))
            }
            Form::Message(message, bytes) => self.fields(message, bytes, false, |fields| visitor.visit_map(fields)),
            Form::List(list) => self.nested(|shared| visitor.visit_seq(ItemAccess::new(shared, list))),
            Form::Map(map) => self.nested(|shared| visitor.visit_map(EntryAccess::new(shared, map))),
            Form::Json(json) => self.json(json, |json| json.deserialize_any(visitor)),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if matches!(self.0.form, Form::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.0.form {
            Form::Text(text) => BorrowedStrDeserializer::new(text).deserialize_enum(name, variants, visitor),
            Form::Written => StrDeserializer::new(&self.0.text).deserialize_enum(name, variants, visitor),
            Form::Message(message, bytes) => self.fields(message, bytes, false, |fields| {
                MapAccessDeserializer::new(fields).deserialize_enum(name, variants, visitor)
            }),
            Form::Map(map) => self.nested(|shared| {
                MapAccessDeserializer::new(EntryAccess::new(shared, map)).deserialize_enum(name, variants, visitor)
            }),
            Form::Json(json) => self.json(json, |json| json.deserialize_enum(name, variants, visitor)),
            _ => Err(DecodeError::invalid_type(Unexpected::Other("a value of another type"), &visitor)),
        }
    }

    /// What is ignored is not read.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}
