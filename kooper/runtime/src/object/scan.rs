//! A JSON scanner that finds the position of values without decoding them.
//!
//! It only checks that strings end and brackets match. A malformed number or key
//! within a value is detected when the value is decoded.

use std::ops::Range;

use memchr::memchr2;

/// Why a text could not be scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanError(pub(crate) &'static str);

/// The position of an object in a text, and of the parts that the runtime needs.
/// Strings are without quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectRanges {
    pub(crate) whole: Range<usize>,
    pub(crate) name: Option<Range<usize>>,
    pub(crate) namespace: Option<Range<usize>>,
    pub(crate) uid: Option<Range<usize>>,
    pub(crate) version: Option<Range<usize>>,
    /// `"managedFields": […]` with the comma before or after it.
    pub(crate) managed: Option<Range<usize>>,
    /// The value of `metadata.ownerReferences`.
    pub(crate) owners: Option<Range<usize>>,
    /// The value of `metadata.annotations`.
    pub(crate) annotations: Option<Range<usize>>,
    /// `true` if `metadata.deletionTimestamp` is set.
    pub(crate) terminating: bool,
}

impl ObjectRanges {
    /// Scans the object that starts at `at`, in one pass.
    pub(crate) fn scan(text: &[u8], at: usize) -> Result<Self, ScanError> {
        let mut cursor = Cursor { text, at, member: at };
        cursor.space();
        let start = cursor.at;
        let mut ranges = Self::default();
        cursor.members(|cursor, key| if key == b"metadata" { ranges.metadata(cursor) } else { cursor.skip() })?;
        ranges.whole = start..cursor.at;
        Ok(ranges)
    }

    fn metadata(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ScanError> {
        if cursor.peek() != Some(b'{') {
            return cursor.skip();
        }
        // The end of the previous member: the comma behind it is removed together
        // with `managedFields`.
        let mut after_previous = None;
        cursor.members(|cursor, key| {
            let key_start = cursor.member;
            match key {
                b"name" => self.name = cursor.string_value()?,
                b"namespace" => self.namespace = cursor.string_value()?,
                b"uid" => self.uid = cursor.string_value()?,
                b"resourceVersion" => self.version = cursor.string_value()?,
                b"managedFields" => {
                    cursor.skip()?;
                    let end = cursor.at;
                    cursor.space();
                    self.managed = Some(match after_previous {
                        Some(previous) => previous..end,
                        None if cursor.peek() == Some(b',') => key_start..cursor.at + 1,
                        None => key_start..end,
                    });
                }
                b"ownerReferences" => self.owners = Some(cursor.value()?),
                b"annotations" => self.annotations = Some(cursor.value()?),
                b"deletionTimestamp" => self.terminating = cursor.string_value()?.is_some(),
                _ => cursor.skip()?,
            }
            after_previous = Some(cursor.at);
            Ok(())
        })
    }
}

/// A position in a JSON text.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    pub(crate) at: usize,
    /// The start of the current member: the quote of its key.
    member: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, member: 0 }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Scans an object. `each` is called at each value with its key, and must move
    /// behind the value.
    pub(crate) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &'a [u8]) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.expect(b'{', "expected an object")?;
        self.space();
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let member = self.at;
            let key = self.string()?;
            let key = self.text.get(key).unwrap_or_default();
            self.space();
            self.expect(b':', "a key has no value")?;
            self.space();
            self.member = member;
            each(self, key)?;
            self.space();
            if self.eat(b'}') {
                return Ok(());
            }
            self.expect(b',', "an object is not closed")?;
        }
    }

    /// The text of a string between its quotes; any other value is skipped.
    pub(crate) fn string_value(&mut self) -> Result<Option<Range<usize>>, ScanError> {
        if self.peek() == Some(b'"') {
            return self.string().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// Moves behind the value that starts here, and returns its position.
    pub(crate) fn value(&mut self) -> Result<Range<usize>, ScanError> {
        let start = self.at;
        self.skip()?;
        Ok(start..self.at)
    }

    /// Moves behind the value that starts here.
    pub(crate) fn skip(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{' | b'[') => self.skip_nested(),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                while !matches!(self.peek(), None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r')) {
                    self.at += 1;
                }
                Ok(())
            }
            _ => Err(ScanError("expected a value")),
        }
    }

    fn skip_nested(&mut self) -> Result<(), ScanError> {
        let mut depth = 0usize;
        let mut at = self.at;
        loop {
            match self.text.get(at) {
                Some(b'"') => at = string_end(self.text, at + 1)?,
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => {
                    depth -= 1;
                    if depth == 0 {
                        self.at = at + 1;
                        return Ok(());
                    }
                }
                Some(_) => {}
                None => return Err(ScanError("its brackets do not match")),
            }
            at += 1;
        }
    }

    /// Scans a string and returns the text between its quotes.
    fn string(&mut self) -> Result<Range<usize>, ScanError> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        let end = string_end(self.text, start)?;
        self.at = end + 1;
        Ok(start..end)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Result<(), ScanError> {
        if self.eat(byte) { Ok(()) } else { Err(ScanError(otherwise)) }
    }
}

/// The position of the closing quote of the string that began before `at`.
fn string_end(text: &[u8], mut at: usize) -> Result<usize, ScanError> {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        match memchr2(b'"', b'\\', rest).map(|found| at + found) {
            Some(found) if text.get(found) == Some(&b'"') => return Ok(found),
            // The byte after a backslash is never the closing quote.
            Some(found) => at = found + 2,
            None => return Err(ScanError("a string is not closed")),
        }
    }
}
