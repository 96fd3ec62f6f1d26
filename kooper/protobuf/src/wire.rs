//! The wire format: fields of a number and a value, one after the other.

use std::borrow::Cow;

use crate::error::Problem;
use crate::table::Type;

/// A part of the input, and where it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: usize,
}

impl<'a> Span<'a> {
    /// The bytes as text; what is not UTF-8 is replaced.
    pub(crate) fn text(self) -> Cow<'a, str> {
        // Valid text is recognized several bytes at a time.
        str::from_utf8(self.bytes).map_or_else(|_| String::from_utf8_lossy(self.bytes), Cow::Borrowed)
    }
}

/// A value as it is on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(Span<'a>),
}

impl Value<'_> {
    pub(crate) fn wire_type(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) number: u32,
    pub(crate) value: Value<'a>,
    /// Where it begins.
    pub(crate) offset: usize,
}

impl Token<'static> {
    /// The value of an entry of a map that has none, and of a single value that the message lacks.
    pub(crate) fn absent(number: u32, of: Type, offset: usize) -> Self {
        let value = match of {
            Type::Bool | Type::Int32 | Type::Int64 => Value::Varint(0),
            Type::Double => Value::Fixed64(0),
            _ => Value::Bytes(Span { bytes: &[], offset }),
        };
        Self { number, value, offset }
    }
}

impl Token<'_> {
    /// Returns `true` if JSON omits the value as empty.
    pub(crate) fn is_empty(self, of: Type) -> bool {
        match self.value {
            Value::Varint(number) if of == Type::Int32 => number as i32 == 0,
            Value::Varint(number) => number == 0,
            Value::Fixed64(bits) => f64::from_bits(bits) == 0.0,
            Value::Bytes(span) => span.bytes.is_empty() && matches!(of, Type::String | Type::Bytes | Type::Time),
            Value::Fixed32 => false,
        }
    }
}

/// Reads the fields of a message in their order.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    span: Span<'a>,
    at: usize,
}

/// The largest number that a field may have.
const LARGEST: u64 = (1 << 29) - 1;

impl<'a> Reader<'a> {
    pub(crate) fn new(span: Span<'a>) -> Self {
        Self { span, at: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.span.offset + self.at
    }

    /// The next field; groups, which no message has, are skipped.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Token<'a>>, Problem> {
        match self.short() {
            Some(token) => Ok(Some(token)),
            None => self.any(),
        }
    }

    /// A field whose number and whose value or length take one byte each, as most do.
    #[inline]
    fn short(&mut self) -> Option<Token<'a>> {
        let rest = self.span.bytes.get(self.at..)?;
        let (&[tag, second], after) = rest.split_first_chunk()?;
        if !(0x08..0x80).contains(&tag) || second >= 0x80 {
            return None;
        }
        let (value, length) = match tag & 7 {
            0 => (Value::Varint(second.into()), 2),
            2 => {
                let bytes = after.get(..usize::from(second))?;
                (Value::Bytes(Span { bytes, offset: self.offset() + 2 }), 2 + bytes.len())
            }
            _ => return None,
        };
        let offset = self.offset();
        self.at += length;
        Some(Token { number: u32::from(tag >> 3), value, offset })
    }

    /// A field of any length, or none.
    fn any(&mut self) -> Result<Option<Token<'a>>, Problem> {
        let mut groups: Vec<u64> = Vec::new();
        loop {
            if self.at == self.span.bytes.len() {
                return if groups.is_empty() { Ok(None) } else { Err(Problem::Group) };
            }
            let offset = self.offset();
            let tag = self.varint()?;
            let number = tag >> 3;
            if number == 0 || number > LARGEST {
                return Err(Problem::Number);
            }
            let value = match tag & 7 {
                0 => Value::Varint(self.varint()?),
                1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
                2 => {
                    let length = usize::try_from(self.varint()?).map_err(|_| Problem::Truncated)?;
                    let offset = self.offset();
                    Value::Bytes(Span { bytes: self.take(length)?, offset })
                }
                3 => {
                    groups.push(number);
                    continue;
                }
                4 if groups.pop() == Some(number) => continue,
                4 => return Err(Problem::Group),
                5 => {
                    self.fixed::<4>()?;
                    Value::Fixed32
                }
                other => return Err(Problem::WireType(other as u8)),
            };
            if groups.is_empty() {
                return Ok(Some(Token { number: number as u32, value, offset }));
            }
        }
    }

    /// The next of several numbers without tags, as a packed list has them.
    pub(crate) fn packed(&mut self) -> Result<Option<u64>, Problem> {
        if self.at == self.span.bytes.len() { Ok(None) } else { self.varint().map(Some) }
    }

    fn varint(&mut self) -> Result<u64, Problem> {
        // Most numbers are small.
        if let Some(&byte) = self.span.bytes.get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(u64::from(byte));
        }
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.fixed()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Problem::Overflow)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        self.take(N)?.try_into().map_err(|_| Problem::Truncated)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let (taken, _) = self.span.bytes[self.at..].split_at_checked(length).ok_or(Problem::Truncated)?;
        self.at += length;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, Span, Value};

    fn read(bytes: &[u8]) -> Result<Vec<(u32, u8)>, String> {
        let mut reader = Reader::new(Span { bytes, offset: 0 });
        let mut found = Vec::new();
        while let Some(token) = reader.next().map_err(|problem| problem.to_string())? {
            found.push((token.number, token.value.wire_type()));
        }
        Ok(found)
    }

    #[test]
    fn fields_of_each_wire_type_are_read() {
        let bytes = [0x08, 0x96, 0x01, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a, 1, b'a', 0x25, 0, 0, 0, 0];
        assert_eq!(read(&bytes), Ok(vec![(1, 0), (2, 1), (3, 2), (4, 5)]));
    }

    #[test]
    fn groups_are_skipped_with_what_is_in_them() {
        assert_eq!(read(&[0x0b, 0x10, 1, 0x13, 0x14, 0x0c, 0x18, 1]), Ok(vec![(3, 0)]));
        for wrong in [&[0x0b][..], &[0x0c], &[0x0b, 0x14], &[0x0b, 0x13, 0x0c, 0x14]] {
            assert!(read(wrong).unwrap_err().contains("group"), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_not_a_field_is_refused() {
        for (wrong, why) in [
            (&[0x08][..], "end in the middle of a value"),
            (&[0x0a, 2, b'a'], "end in the middle of a value"),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "end in the middle of a value"),
            (&[0x11, 0], "end in the middle of a value"),
            (&[0x80], "end in the middle of a value"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "64 bits"),
            (&[0x00, 0], "a field number is 0"),
            (&[0x80, 0x80, 0x80, 0x80, 0x10, 0], "a field number is 0"),
            (&[0x0e], "wire type 6"),
        ] {
            let found = read(wrong).unwrap_err();
            assert!(found.contains(why), "{wrong:?}: {found}");
        }
    }

    #[test]
    fn positions_count_from_the_beginning_of_the_input() {
        let mut reader = Reader::new(Span { bytes: &[0x08, 1, 0x12, 1, 7], offset: 100 });
        assert_eq!(reader.next().unwrap().unwrap().offset, 100);
        let token = reader.next().unwrap().unwrap();
        assert_eq!(token.offset, 102);
        assert!(matches!(token.value, Value::Bytes(Span { offset: 104, bytes: [7] })));
    }
}
