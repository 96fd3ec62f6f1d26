//! Splits the page of a list into objects while it arrives.

use memchr::memchr2;

use super::{LONGEST_LINE, broken_line, too_long};
use crate::object::Object;
use crate::object::scan::{Cursor, ScanError};
use crate::watch::retriever::{Page, RetrieveError};

/// The text around the items of a list is short.
const LONGEST_OUTLINE: usize = 1 << 20;

/// Splits the body of a list into objects while it arrives. It never holds more
/// than one item as text.
#[derive(Default)]
pub(in crate::watch::retriever) struct JsonPage {
    page: Page,
    /// The body without its items.
    outline: Vec<u8>,
    /// The part of an item that has arrived.
    item: Vec<u8>,
    in_items: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// The nesting depth within the body, and within the array of its items.
const BODY: usize = 1;
const ITEMS: usize = 2;

impl JsonPage {
    pub(in crate::watch::retriever) fn push(&mut self, mut chunk: &[u8]) -> Result<(), RetrieveError> {
        while let Some((&byte, rest)) = chunk.split_first() {
            if self.in_string && !self.escaped {
                let end = memchr2(b'"', b'\\', chunk).unwrap_or(chunk.len());
                let (text, rest) = chunk.split_at(end);
                self.text().extend_from_slice(text);
                chunk = rest;
                if let Some((&end, rest)) = chunk.split_first() {
                    self.text().push(end);
                    self.in_string = end != b'"';
                    self.escaped = self.in_string;
                    chunk = rest;
                }
            } else {
                self.byte(byte)?;
                chunk = rest;
            }
        }
        if self.item.len() > LONGEST_LINE {
            return Err(too_long("an object", LONGEST_LINE));
        }
        if self.outline.len() > LONGEST_OUTLINE {
            return Err(too_long("a list without its objects", LONGEST_OUTLINE));
        }
        Ok(())
    }

    /// The whole body has arrived.
    pub(in crate::watch::retriever) fn end(mut self) -> Result<Page, RetrieveError> {
        let page = &mut self.page;
        let outline = &self.outline;
        let mut is_list = false;
        let mut cursor = Cursor::new(outline);
        cursor.space();
        cursor
            .members(|cursor, key| match key {
                b"metadata" if cursor.peek() == Some(b'{') => cursor.members(|cursor, key| {
                    let mut text = || {
                        let range = cursor.string_value()?;
                        let bytes = range.and_then(|range| outline.get(range));
                        Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
                    };
                    match key {
                        b"resourceVersion" => page.version = text()?.unwrap_or_default(),
                        b"continue" => page.continue_token = text()?.filter(|token| !token.is_empty()),
                        _ => cursor.skip()?,
                    }
                    Ok(())
                }),
                b"items" => {
                    is_list = true;
                    cursor.skip()
                }
                _ => cursor.skip(),
            })
            .map_err(|broken| broken_line(broken, outline))?;
        // A gateway may respond to any request with another object. Taken for a list without items, it would count as the
        // deletion of all objects.
        if !is_list {
            return Err(broken_line(ScanError("it has no `items`, so it is not a list"), outline));
        }
        Ok(self.page)
    }

    /// The length of the text that it holds.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.outline.len() + self.item.len()
    }

    /// A byte outside of strings, or after a backslash.
    fn byte(&mut self, byte: u8) -> Result<(), RetrieveError> {
        if std::mem::take(&mut self.escaped) {
            self.text().push(byte);
            return Ok(());
        }
        let between_items = self.in_items && self.depth == ITEMS;
        match byte {
            b',' | b' ' | b'\n' | b'\t' | b'\r' if between_items => {
                self.cut();
                return Ok(());
            }
            b']' if between_items => {
                self.cut();
                self.in_items = false;
            }
            b'[' if self.depth == BODY && !self.in_items && is_items(&self.outline) => {
                self.outline.push(byte);
                self.in_items = true;
                self.depth = ITEMS;
                return Ok(());
            }
            _ => {}
        }
        self.text().push(byte);
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                let depth = self.depth.checked_sub(1);
                self.depth = depth.ok_or_else(|| broken_line(ScanError("its brackets do not match"), &self.outline))?;
                if self.in_items && self.depth == ITEMS {
                    self.cut();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The buffer for the next byte.
    fn text(&mut self) -> &mut Vec<u8> {
        if self.in_items { &mut self.item } else { &mut self.outline }
    }

    /// Completes the current item, if there is one.
    fn cut(&mut self) {
        if !self.item.is_empty() {
            self.page.objects.push(Object::parse(&self.item));
            self.item.clear();
        }
    }
}

/// Returns `true` if the array that follows is the value of `items`.
fn is_items(outline: &[u8]) -> bool {
    let key = outline.trim_ascii_end().strip_suffix(b":").map(<[u8]>::trim_ascii_end);
    let before = key.and_then(|key| key.strip_suffix(b"\"items\""));
    before.is_some_and(|before| matches!(before.trim_ascii_end().last(), Some(b'{' | b',')))
}
