//! The envelope of an object: its kind and its encoding.

use std::borrow::Cow;

use crate::error::{DecodeError, Problem};
use crate::wire::{Reader, Span, Token, Value};

/// The first bytes of every encoded object.
pub(crate) const MAGIC: &[u8; 4] = b"k8s\0";

/// An encoded object with its kind, which is not decoded yet.
#[derive(Clone, Debug)]
pub struct Envelope<'a> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    raw: Span<'a>,
}

impl<'a> Envelope<'a> {
    /// Returns `true` if bytes begin like an encoded object.
    #[must_use]
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Reads the envelope of an encoded object.
    ///
    /// # Errors
    ///
    /// If the bytes do not begin as encoded objects do, or end early.
    pub fn open(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(DecodeError::new("the envelope", Problem::Magic, 0));
        };
        let mut envelope =
            Self { api_version: "".into(), kind: "".into(), raw: Span { bytes: &[], offset: bytes.len() } };
        let mut type_meta = Span::default();
        each("the envelope", Span { bytes: rest, offset: MAGIC.len() }, |number, value| match number {
            1 => type_meta = value,
            2 => envelope.raw = value,
            _ => {}
        })?;
        each("the envelope.typeMeta", type_meta, |number, value| match number {
            1 => envelope.api_version = value.text(),
            2 => envelope.kind = value.text(),
            _ => {}
        })?;
        Ok(envelope)
    }

    /// The group and version of the object, such as `apps/v1`; may be empty.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind of the object, such as `Deployment`; may be empty.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The object without its kind, see [`Kind::decode_json`](crate::Kind::decode_json).
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw.bytes
    }

    /// Where the object begins in the bytes that were opened.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.raw.offset
    }
}

/// Passes on the fields of bytes; all that are known are of bytes.
pub(crate) fn each<'a>(name: &str, span: Span<'a>, mut take: impl FnMut(u32, Span<'a>)) -> Result<(), DecodeError> {
    let mut reader = Reader::new(span);
    loop {
        let offset = reader.offset();
        match reader.next().map_err(|problem| DecodeError::new(name, problem, offset))? {
            Some(Token { number, value: Value::Bytes(value), .. }) => take(number, value),
            Some(Token { number: 1..=4, value, offset }) => {
                return Err(DecodeError::new(name, Problem::WireType(value.wire_type()), offset));
            }
            Some(_) => {}
            None => return Ok(()),
        }
    }
}
