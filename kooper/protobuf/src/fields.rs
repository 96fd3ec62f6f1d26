//! The fields of an object, found without decoding it.

use std::ops::Range;

use crate::kind::Kind;
use crate::lexer::{END, Lexer};
use crate::table::{Field, Message, Type};

/// The fields of an encoded object, or of a message in it. They end where the bytes are no fields.
///
/// ```
/// use kooper_protobuf::{Envelope, Kind};
/// use serde_json::json;
///
/// let kind = Kind::of("v1", "Namespace").expect("it is built in");
/// let bytes = kind.encode(&json!({"metadata": {"name": "shop"}}))?;
/// let envelope = Envelope::open(&bytes)?;
///
/// let metadata = kind.fields(envelope.raw()).find(|field| field.name() == "metadata").expect("all have it");
/// let name = metadata.fields().find(|field| field.name() == "name").expect("it has a name");
/// assert_eq!(name.value(), b"shop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RawFields<'a> {
    message: Option<Message>,
    lexer: Lexer<'a>,
    /// Where the fields end in the object.
    end: usize,
}

/// One occurrence of a field: a list or a map has one for each item.
#[derive(Clone, Debug)]
pub struct RawField<'a> {
    field: Option<Field>,
    range: Range<usize>,
    value: &'a [u8],
    word: u64,
}

impl Kind {
    /// The fields of an object, as [`Envelope::raw`](crate::Envelope::raw) has it.
    #[must_use]
    pub fn fields(self, raw: &[u8]) -> RawFields<'_> {
        RawFields { message: Some(self.message()), lexer: Lexer::new(raw), end: raw.len() }
    }
}

impl RawFields<'_> {
    /// Returns `true` if the message has a field of this name in JSON, also if it is absent here.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let message = self.message;
        message.is_some_and(|message| message.fields().any(|field| field.name() == name && !field.is_inline()))
    }
}

impl<'a> RawField<'a> {
    /// The name in JSON; empty if the table does not have the field.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.field.map_or("", Field::name)
    }

    /// Where the field is in the object, with its number.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The bytes of a string, a message, or an entry of a map; empty for a number.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The value of a number; 0 for another value.
    #[must_use]
    pub fn integer(&self) -> u64 {
        self.word
    }

    /// The fields of a message; none of another value.
    #[must_use]
    pub fn fields(&self) -> RawFields<'a> {
        let message = self.field.filter(|field| field.of() == Type::Message && !field.is_map()).map(Field::message);
        let lexer = if message.is_some() { Lexer::new(self.value) } else { Lexer::ended() };
        RawFields { message, lexer, end: self.range.end }
    }
}

impl<'a> Iterator for RawFields<'a> {
    type Item = RawField<'a>;

    fn next(&mut self) -> Option<RawField<'a>> {
        self.lexer.step().ok()?;
        let (record, from) = (self.lexer.record, self.lexer.from.len());
        if record.number == END {
            return None;
        }
        let range = self.end - from..self.end - self.lexer.left();
        let field = self.message.and_then(|message| message.field(record.number));
        let word = if record.wire_type == 0 { record.word } else { 0 };
        Some(RawField { field, range, value: record.bytes, word })
    }
}
