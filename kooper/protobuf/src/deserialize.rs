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
use serde::de::{DeserializeSeed, Deserializer, Error as _, Expected, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::de::StrRead;

use self::access::{EntryAccess, FieldAccess, ItemAccess, Members};
use self::form::Form;
use crate::error::{DecodeError, NESTING, Place, Problem};
use crate::kind::Kind;
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
pub(crate) struct NextValue<'m, 'de>(&'m mut Shared<'de>);

impl<'de> Shared<'de> {
    pub(crate) fn new(kind: Kind, raw: &'de [u8]) -> Self {
        let (place, text) = (kind.message().into(), String::new());
        Self { kind, raw, nesting: 0, text, place, bytes: raw, form: Form::Object }
    }

    pub(crate) fn object(&mut self) -> NextValue<'_, 'de> {
        NextValue(self)
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
        seed.deserialize(NextValue(self)).map_err(|error| error.within(place, self.span(bytes).offset))
    }

    /// Counts an object or a list whose contents are read.
    fn enter(&mut self) -> Result<(), DecodeError> {
        if self.nesting >= NESTING {
            return Err(self.error(self.place, Problem::Nesting, self.bytes));
        }
        self.nesting += 1;
        Ok(())
    }

    /// The fields or entries of an object.
    fn members(&mut self, expected: &dyn Expected) -> Result<Members<'_, 'de>, DecodeError> {
        let (message, bytes, is_object) = match self.form {
            Form::Object => (self.kind.message(), self.raw, true),
            Form::Message(message, bytes) => (message, bytes, false),
            Form::Map(map) => {
                self.enter()?;
                return Ok(Members::Entries(EntryAccess::new(self, map)));
            }
            _ => return Err(self.mismatch(expected)),
        };
        self.enter()?;
        Ok(Members::Fields(FieldAccess::new(self, message, bytes, is_object)))
    }

    /// The items of a list.
    fn items(&mut self, expected: &dyn Expected) -> Result<ItemAccess<'_, 'de>, DecodeError> {
        let Form::List(list) = self.form else { return Err(self.mismatch(expected)) };
        self.enter()?;
        Ok(ItemAccess::new(self, list))
    }

    /// The error about a value of another type.
    #[cold]
    fn mismatch(&self, expected: &dyn Expected) -> DecodeError {
        let found = match self.form {
            Form::Null => Unexpected::Unit,
            Form::Bool(value) => Unexpected::Bool(value),
            Form::Int(value) => u64::try_from(value).map_or(Unexpected::Signed(value), Unexpected::Unsigned),
            Form::Float(value) => Unexpected::Float(value),
            Form::Text(text) => Unexpected::Str(text),
            Form::Written => Unexpected::Str(&self.text),
            Form::Object | Form::Message(..) | Form::Map(_) => Unexpected::Map,
            Form::List(_) => Unexpected::Seq,
            Form::Json(_) => Unexpected::Other("JSON"),
        };
        DecodeError::invalid_type(found, expected)
    }

    /// A reader of a value that is JSON already.
    fn reader(&self, json: &'de [u8]) -> Result<serde_json::Deserializer<StrRead<'de>>, DecodeError> {
        match str::from_utf8(json) {
            Ok(text) => Ok(serde_json::Deserializer::from_str(text)),
            Err(_) => Err(self.invalid(json, serde_json::Error::custom("it is not UTF-8"))),
        }
    }

    #[cold]
    fn invalid(&self, json: &'de [u8], error: serde_json::Error) -> DecodeError {
        self.error(self.place, Problem::Json(error), json)
    }
}

// All of this is compiled for each type that is read, so it is short, and each method has only the forms that its types have.
impl<'de> NextValue<'_, 'de> {
    /// Reads what is in an object.
    #[inline]
    fn map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let members = self.0.members(&visitor)?;
        let value = visitor.visit_map(members)?;
        self.0.nesting -= 1;
        Ok(value)
    }

    /// Reads what is in a list.
    #[inline]
    fn seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let mut items = self.0.items(&visitor)?;
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        self.0.nesting -= 1;
        Ok(value)
    }

    /// Reads a value that is JSON already.
    #[inline]
    fn json<T>(
        self,
        json: &'de [u8],
        read: impl FnOnce(&mut serde_json::Deserializer<StrRead<'de>>) -> serde_json::Result<T>,
    ) -> Result<T, DecodeError> {
        let mut reader = self.0.reader(json)?;
        let value = match read(&mut reader) {
            Ok(value) => value,
            Err(error) => return Err(self.0.invalid(json, error)),
        };
        match reader.end() {
            Ok(()) => Ok(value),
            Err(error) => Err(self.0.invalid(json, error)),
        }
    }
}

impl<'de> Deserializer<'de> for NextValue<'_, 'de> {
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
            Form::Object | Form::Message(..) | Form::Map(_) => self.map(visitor),
            Form::List(_) => self.seq(visitor),
            Form::Json(json) => self.json(json, |json| json.deserialize_any(visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.0.form {
            Form::List(_) => self.seq(visitor),
            Form::Json(json) => self.json(json, |json| json.deserialize_struct(name, fields, visitor)),
            _ => self.map(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0.form {
            Form::Json(json) => self.json(json, |json| json.deserialize_map(visitor)),
            _ => self.map(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0.form {
            Form::Json(json) => self.json(json, |json| json.deserialize_seq(visitor)),
            _ => self.seq(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0.form {
            Form::Text(text) => visitor.visit_borrowed_str(text),
            Form::Written => visitor.visit_str(&self.0.text),
            Form::Json(json) => self.json(json, |json| json.deserialize_str(visitor)),
            _ => Err(self.0.mismatch(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
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
            Form::Object | Form::Message(..) | Form::Map(_) => {
                let mut members = self.0.members(&visitor)?;
                let value = MapAccessDeserializer::new(&mut members).deserialize_enum(name, variants, visitor)?;
                members.end()?;
                self.0.nesting -= 1;
                Ok(value)
            }
            Form::Json(json) => self.json(json, |json| json.deserialize_enum(name, variants, visitor)),
            _ => Err(self.0.mismatch(&visitor)),
        }
    }

    /// Ignored values are not read.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct identifier
    }
}
