//! The fields of a message, one at a time.

use crate::error::Problem;
use crate::wire::{Reader, Span, Value};

/// The number behind the last field.
pub(crate) const END: u32 = u32::MAX;

/// A record of a message: the number of a field, and a value. The name is that of the
/// [specification of the encoding](https://protobuf.dev/programming-guides/encoding/#structure).
///
/// Nothing in it is an enum: a value that is written in small parts and copied in large ones costs more time than
/// decoding it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record<'de> {
    pub(crate) number: u32,
    pub(crate) wire_type: u32,
    /// A number, or the bits of one.
    pub(crate) word: u64,
    /// The bytes of a value that has a length; of others, an empty part of the input.
    pub(crate) bytes: &'de [u8],
}

/// Reads a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lexer<'de> {
    /// The message from the field on.
    pub(crate) from: &'de [u8],
    pub(crate) record: Record<'de>,
    rest: &'de [u8],
}

impl Record<'_> {
    pub(crate) const VARINT: u32 = 0;
    pub(crate) const BYTES: u32 = 2;
}

impl<'de> Lexer<'de> {
    /// The lexer before the first field.
    pub(crate) fn new(bytes: &'de [u8]) -> Self {
        Self { from: bytes, record: Record { bytes, ..Record::default() }, rest: bytes }
    }

    /// The lexer behind the last field.
    pub(crate) const fn ended() -> Self {
        Self { from: &[], record: Record { number: END, wire_type: 0, word: 0, bytes: &[] }, rest: &[] }
    }

    /// The number of bytes behind the field.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next field.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), Problem> {
        self.from = self.rest;
        if let Some((tag, rest)) = short(self.rest)
            && tag >= 8
            && let Some((word, rest)) = short(rest)
        {
            let length = match tag & 7 {
                0 => Some(0),
                2 => Some(word as usize),
                _ => None,
            };
            if let Some(length) = length
                && let Some((bytes, rest)) = rest.split_at_checked(length)
            {
                self.record.number = tag >> 3;
                self.record.wire_type = tag & 7;
                self.record.word = u64::from(word);
                self.record.bytes = bytes;
                self.rest = rest;
                return Ok(());
            }
        }
        self.step_any()
    }

    /// Reads a field of any length, or the end.
    #[inline(never)]
    fn step_any(&mut self) -> Result<(), Problem> {
        if self.rest.is_empty() {
            (self.record.number, self.record.bytes) = (END, self.rest);
            return Ok(());
        }
        let mut reader = Reader::new(Span { bytes: self.rest, offset: 0 });
        let token = reader.next()?;
        self.rest = self.rest.get(reader.offset()..).unwrap_or_default();
        self.record.number = END;
        self.record.bytes = self.rest.get(..0).unwrap_or_default();
        let Some(token) = token else { return Ok(()) };
        self.record.number = token.number;
        self.record.wire_type = u32::from(token.value.wire_type());
        match token.value {
            Value::Varint(word) | Value::Fixed64(word) => self.record.word = word,
            Value::Bytes(span) => self.record.bytes = span.bytes,
            Value::Fixed32 => {}
        }
        Ok(())
    }
}

/// The number at the beginning of some that have no tags, and those behind it.
pub(crate) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut reader = Reader::new(Span { bytes, offset: 0 });
    let number = reader.packed().ok()??;
    Some((number, &bytes[reader.offset()..]))
}

/// A number of one byte or two, as most are.
#[inline]
fn short(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [byte, rest @ ..] if *byte < 0x80 => Some((u32::from(*byte), rest)),
        [low, high, rest @ ..] if *high < 0x80 => Some((u32::from(*low & 0x7f) | u32::from(*high) << 7, rest)),
        _ => None,
    }
}
