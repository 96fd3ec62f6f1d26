//! The fields of messages, the items of lists, and the entries of maps.

use std::borrow::Cow;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::Shared;
use super::form::{Form, Run};
use crate::error::{DecodeError, Place};
use crate::lexer::{END, Lexer, Record};
use crate::table::{Fields, Message};
use crate::wire::Span;

/// The fields of a message or the entries of a map, as one type: each visitor is compiled once for both.
pub(super) enum Members<'m, 'de> {
    Fields(FieldAccess<'m, 'de>),
    Entries(EntryAccess<'m, 'de>),
}

impl<'de> Members<'_, 'de> {
    /// The next key, whose value is then the next one.
    fn advance(&mut self) -> Result<Option<Key<'de>>, DecodeError> {
        match self {
            Self::Fields(fields) => Ok(fields.advance()?.map(|name| Key(Cow::Borrowed(name)))),
            Self::Entries(entries) => Ok(entries.advance()?.map(Key)),
        }
    }

    /// Makes the value of the key that was read the next one.
    fn value(&mut self) -> Result<&mut Shared<'de>, DecodeError> {
        match self {
            Self::Fields(fields) => Ok(fields.shared),
            Self::Entries(entries) => entries.value(),
        }
    }

    /// Fails if there is another key: an enum is an object with one.
    pub(super) fn end(mut self) -> Result<(), DecodeError> {
        match self.advance()? {
            Some(_) => Err(DecodeError::invalid_value(Unexpected::Map, &"map with a single key")),
            None => Ok(()),
        }
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        match self.advance()? {
            Some(key) => seed.deserialize(key).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        self.value()?.seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        match self {
            Self::Fields(_) => None,
            Self::Entries(entries) => Some(entries.run.count as usize),
        }
    }
}

/// The name of a field, or the key of an entry.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = DecodeError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.0 {
            Cow::Borrowed(key) => visitor.visit_borrowed_str(key),
            Cow::Owned(key) => visitor.visit_string(key),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.0 {
            Cow::Borrowed(key) => BorrowedStrDeserializer::new(key).deserialize_enum(name, variants, visitor),
            Cow::Owned(key) => StrDeserializer::new(&key).deserialize_enum(name, variants, visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The fields of a message in the order of their numbers.
pub(super) struct FieldAccess<'m, 'de> {
    shared: &'m mut Shared<'de>,
    level: Level<'de>,
    /// The messages around the one that is read, whose fields are written into theirs.
    outer: Vec<Level<'de>>,
    /// `kind` and `apiVersion`, which are not in the message, until they are read.
    names: &'static [&'static str],
}

/// A message whose fields are being read.
struct Level<'de> {
    message: Message,
    fields: Fields,
    lexer: Lexer<'de>,
}

impl<'de> Level<'de> {
    fn new(message: Message, bytes: &'de [u8]) -> Self {
        Self { message, fields: message.fields(), lexer: Lexer::new(bytes) }
    }
}

impl<'de> Shared<'de> {
    #[inline]
    fn step(&self, lexer: &mut Lexer<'de>, place: Place) -> Result<(), DecodeError> {
        lexer.step().map_err(|problem| self.error(place, problem, lexer.from))
    }
}

impl<'m, 'de> FieldAccess<'m, 'de> {
    #[inline]
    pub(super) fn new(shared: &'m mut Shared<'de>, message: Message, bytes: &'de [u8], is_object: bool) -> Self {
        let names: &[&str] = if is_object { &["kind", "apiVersion"] } else { &[] };
        Self { shared, level: Level::new(message, bytes), outer: Vec::new(), names }
    }

    /// The name of the next field, whose value is then the next one.
    fn advance(&mut self) -> Result<Option<&'static str>, DecodeError> {
        if let [name, rest @ ..] = self.names {
            let kind = self.shared.kind;
            self.shared.form = Form::Text(if rest.is_empty() { kind.api_version() } else { kind.name() });
            self.names = rest;
            return Ok(Some(name));
        }
        if self.level.lexer.record.number == 0 {
            self.shared.step(&mut self.level.lexer, self.level.message.into())?;
        }
        loop {
            let Level { message, fields, lexer } = &mut self.level;
            // Most fields of most messages are absent, and then not in JSON.
            let Some(field) = fields.seek(lexer.record.number) else {
                let Some(outer) = self.outer.pop() else { return Ok(None) };
                self.level = outer;
                continue;
            };
            let place = Place { message: *message, field: Some(field) };
            // The table lacks fields of newer versions.
            while lexer.record.number < field.number() {
                self.shared.step(lexer, place)?;
            }
            if lexer.record.number != field.number() {
                if field.is_silent() {
                    continue;
                }
                if field.is_inline() {
                    let level =
                        Level { message: field.message(), fields: field.message().fields(), lexer: Lexer::ended() };
                    self.outer.push(std::mem::replace(&mut self.level, level));
                    continue;
                }
                if self.shared.absent(place, field)? {
                    return Ok(Some(field.name()));
                }
                continue;
            }
            let (start, mut last, mut count) = (lexer.from, lexer.record, 0);
            while lexer.record.number == field.number() {
                (last, count) = (lexer.record, count + 1);
                self.shared.step(lexer, place)?;
            }
            if field.is_inline() {
                let bytes = self.shared.bytes_of(place, &last)?;
                let mut level = Level::new(field.message(), bytes);
                self.shared.step(&mut level.lexer, place)?;
                self.outer.push(std::mem::replace(&mut self.level, level));
                continue;
            }
            let run = &start[..start.len() - lexer.from.len()];
            if self.shared.present(place, field, run, count, &last)? {
                return Ok(Some(field.name()));
            }
        }
    }
}

/// The items of a list.
pub(super) struct ItemAccess<'m, 'de> {
    shared: &'m mut Shared<'de>,
    place: Place,
    run: Run<'de>,
    lexer: Lexer<'de>,
    /// Numbers that have no tags.
    packed: &'de [u8],
}

impl<'m, 'de> ItemAccess<'m, 'de> {
    pub(super) fn new(shared: &'m mut Shared<'de>, run: Run<'de>) -> Self {
        let place = shared.place;
        Self { shared, place, run, lexer: Lexer::new(run.bytes), packed: &[] }
    }

    /// Makes the next item the next value.
    fn advance(&mut self) -> Result<bool, DecodeError> {
        loop {
            if !self.packed.is_empty() {
                let number = self.shared.packed(self.place, &mut self.packed)?;
                let record = Record { number: self.run.number, word: number, ..Record::default() };
                self.shared.value(self.place, self.run.field, &record)?;
                return Ok(true);
            }
            self.shared.step(&mut self.lexer, self.place)?;
            let record = &self.lexer.record;
            if record.number == END {
                return Ok(false);
            }
            if record.number != self.run.number {
                continue;
            }
            if record.wire_type == Record::BYTES && self.run.is_packed() {
                self.packed = record.bytes;
                continue;
            }
            (self.shared.place, self.shared.bytes) = (self.place, record.bytes);
            self.shared.item(self.place, &self.run, record)?;
            return Ok(true);
        }
    }

    /// Fails if there is another item, which the type did not read.
    pub(super) fn end(mut self) -> Result<(), DecodeError> {
        if self.lexer.record.number != END && self.advance()? {
            return Err(DecodeError::invalid_length(self.run.count as usize, &"fewer elements in array"));
        }
        Ok(())
    }
}

impl<'de> SeqAccess<'de> for ItemAccess<'_, 'de> {
    type Error = DecodeError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        if self.advance()? { self.shared.seed(seed).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.run.count as usize)
    }
}

/// The entries of a map.
pub(super) struct EntryAccess<'m, 'de> {
    shared: &'m mut Shared<'de>,
    place: Place,
    run: Run<'de>,
    lexer: Lexer<'de>,
    /// The value of the entry whose key was read.
    value: Record<'de>,
}

impl<'m, 'de> EntryAccess<'m, 'de> {
    pub(super) fn new(shared: &'m mut Shared<'de>, run: Run<'de>) -> Self {
        let place = shared.place;
        Self { shared, place, run, lexer: Lexer::new(run.bytes), value: Record::default() }
    }

    /// The key of the next entry, whose value is put into `value`.
    fn advance(&mut self) -> Result<Option<Cow<'de, str>>, DecodeError> {
        self.shared.step(&mut self.lexer, self.place)?;
        if self.lexer.record.number == END {
            return Ok(None);
        }
        let mut entry = Lexer::new(self.shared.bytes_of(self.place, &self.lexer.record)?);
        let mut key: &[u8] = &[];
        self.value = Record { wire_type: self.run.field.of().wire_type(), ..Record::default() };
        loop {
            self.shared.step(&mut entry, self.place)?;
            match entry.record.number {
                1 => key = self.shared.bytes_of(self.place, &entry.record)?,
                2 => self.value = entry.record,
                END => return Ok(Some(Span { bytes: key, offset: 0 }.text())),
                _ => {}
            }
        }
    }

    /// Makes the value of the entry whose key was read the next value.
    fn value(&mut self) -> Result<&mut Shared<'de>, DecodeError> {
        (self.shared.place, self.shared.bytes) = (self.place, self.value.bytes);
        self.shared.value(self.place, self.run.field, &self.value)?;
        Ok(self.shared)
    }
}
